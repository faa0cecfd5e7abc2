"""Frames that readers share: however many read and however slowly, each gets what it would get alone."""

import gc
import weakref
from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from holdfast import events as e
from holdfast.agent.shared_fold import SharedFold
from holdfast.codec import encode
from holdfast.folds.rows import RunRow, run_of
from holdfast.interfaces.journal import Record
from holdfast.server.options import Limits
from holdfast.server.streams.feeds import Live
from holdfast.server.streams.shared_frames import FrameGone, FrameReader, HermesFeed, RunFrame, SharedFrames
from journal.sample import delta, ended, started
from stores import MemoryStore
from strategies.legal_logs import BOUNDED, Log, logs


def records_of(log: Log) -> Sequence[Record]:
    return [Record("s", seq, body=encode(event), decoded=event) for seq, event in log]


def after(records: Sequence[Record], seq: int) -> Sequence[Record]:
    """What a log has after the seq; there are gaps where old deltas were."""
    return [record for record in records if record.seq > seq]


def up_to(records: Sequence[Record], data: st.DataObject, *, least: int) -> Sequence[Record]:
    """The log as it was at some time, its first records at least."""
    last = data.draw(st.sampled_from([record.seq for record in records if record.seq >= least]))
    return [record for record in records if record.seq <= last]


def runs_in(log: Log) -> Iterator[RunRow]:
    for first_seq, queued in log:
        if isinstance(queued, e.RunQueued):
            yield RunRow(run_id=queued.run_id, session_id="s", first_seq=first_seq)


def sent(read: Sequence[tuple[Record, RunFrame | None]]) -> list[bytes]:
    return [made.sse for _, made in read if made is not None]


def alone(row: RunRow, records: Sequence[Record]) -> list[bytes]:
    """All frames of the run, from a replay of its own."""
    return sent(FrameReader(row, None, after=0).read(records))


class Applied:
    """Counts how often each record is applied."""

    def __init__(self) -> None:
        self.seqs: list[int] = []

    def applied(self, record: Record) -> None:
        self.seqs.append(record.seq)


@BOUNDED
@given(logs(), st.data())
def test_any_number_of_readers_gets_the_frames_of_one_p7(log: Log, data: st.DataObject) -> None:
    records = records_of(log)
    for row in runs_in(log):
        whole = alone(row, records)
        view, applied = SharedFold(), Applied()
        view.listen(applied)
        view.apply(up_to(records, data, least=row.first_seq), after=0)
        shared = SharedFrames(view, row.run_id, kept_bytes_max=data.draw(st.sampled_from([0, 2000, 10**6])))
        readers = [FrameReader(row, shared, after=0) for _ in range(3)]
        got: list[list[bytes]] = [[], [], []]
        while unfinished := [n for n, reader in enumerate(readers) if reader.at < records[-1].seq]:
            n = data.draw(st.sampled_from(unfinished))
            batch = after(records, readers[n].at)[: data.draw(st.integers(1, 5))]
            try:
                read = readers[n].read(batch)
            except FrameGone:
                readers[n] = readers[n].behind(row)
                continue
            got[n] += sent(read)
            if read and isinstance(read[-1][0].event, e.RunEnded):
                readers[n].at = records[-1].seq
        assert got == [whole, whole, whole]
        expected = [record.seq for record in records if record.seq <= view.last_seq]
        assert applied.seqs == expected, "each record is applied once"


@BOUNDED
@given(logs(), st.data())
def test_a_reader_goes_on_from_any_cursor_of_the_run_p7(log: Log, data: st.DataObject) -> None:
    records = records_of(log)
    for row in runs_in(log):
        own = [record for record in records if run_of(record.event) == row.run_id]
        cursor = data.draw(st.sampled_from([0, *(record.seq for record in own)]))
        view = SharedFold()
        view.apply([record for record in records if record.seq <= row.first_seq], after=0)
        shared = SharedFrames(view, row.run_id)
        view.apply(up_to(records, data, least=row.first_seq), after=0)
        reader = FrameReader(row, shared, after=cursor)
        expected = sent(FrameReader(row, None, after=cursor).read(records))
        assert sent(reader.read(after(records, reader.at))) == expected


def test_a_reader_that_offers_old_records_again_changes_nothing() -> None:
    view, applied = SharedFold(), Applied()
    view.listen(applied)
    said = [
        e.SessionCreated(at_ms=1, epoch="e"),
        e.MessageAccepted(at_ms=2, message_id="m", text="hi", mode="send"),
        e.RunQueued(at_ms=3, run_id="r", message_id="m"),
        e.RunStarted(at_ms=4, run_id="r"),
        e.TextDelta(at_ms=5, run_id="r", segment=1, text="once"),
    ]
    records = records_of(list(enumerate(said, 1)))
    for seen in (0, 0, 2, 4, 5):
        view.apply(after(records, seen), after=seen)
    assert applied.seqs == [1, 2, 3, 4, 5]
    assert view.runs["r"].output == "once"


def test_frames_that_nobody_reads_are_not_made() -> None:
    view = SharedFold()
    view.apply(records_of([(1, e.SessionCreated(at_ms=1, epoch="e"))]), after=0)
    shared = weakref.ref(SharedFrames(view, "r"))
    gc.collect(1)
    assert shared() is None


async def test_a_reader_too_slow_for_the_shared_frames_makes_its_own_and_misses_nothing_p7() -> None:
    store = MemoryStore()
    inputs = [
        e.SessionCreated(at_ms=1, epoch="e"),
        e.MessageAccepted(at_ms=1, message_id="m1", text="hi", mode="send"),
        e.RunQueued(at_ms=1, run_id="r1", message_id="m1"),
    ]
    await store.append("s1", inputs)
    fence = await store.claim("s1")
    view = SharedFold()
    await view.catch_up(store, "s1")
    shared = SharedFrames(view, "r1", kept_bytes_max=2000)
    row = await store.run("r1")
    assert row is not None
    said = [started("r1"), *(delta(f"{nth} ") for nth in range(20)), ended("r1")]
    await store.append_run("s1", said, fence=fence)
    live = Live(lambda _within_s: {}, limits=Limits(), view="hermes")
    quick, slow = (HermesFeed(store, row, after=view.last_seq, live=live, frames=shared) for _ in range(2))
    seen = [await _all(quick), await _all(slow)]
    assert seen[0] == seen[1]
    assert len(seen[0]) == len(said) + 1  # and the comment after its end


async def _all(feed: HermesFeed) -> list[bytes]:
    found: list[bytes] = []
    while (frames := await feed.more()) is not None:
        found += frames
    return found


async def test_a_stream_that_opens_before_its_run_works_looks_for_its_live_line() -> None:
    """P3: a run that waits later says so, even if there was nothing to say when its stream began."""
    live = Live(lambda _within_s: {}, limits=Limits(), view="hermes")
    row = RunRow(run_id="r1", session_id="s1", first_seq=1)
    feed = HermesFeed(MemoryStore(), row, after=0, live=live, frames=None)
    assert feed.next_check_s(0.0) == Limits().live_after_s
