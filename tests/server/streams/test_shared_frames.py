"""Frames that readers share: whoever reads, however slowly, the bytes are those of one who reads alone."""

from collections.abc import Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from holdfast import events as e
from holdfast.codec import encode
from holdfast.folds.rows import RunRow, run_of
from holdfast.interfaces.journal import Record
from holdfast.journal.memory import MemoryStore
from holdfast.server.options import Limits
from holdfast.server.streams.feeds import HermesFeed, Live
from holdfast.server.streams.shared_frames import FrameGone, RunsRead, SharedFrames
from journal.sample import begin, delta, ended, started
from strategies.legal_logs import BOUNDED, Log, logs


def runs_in(log: Log) -> Iterator[tuple[RunRow, Sequence[Record]]]:
    for first_seq, queued in log:
        if isinstance(queued, e.RunQueued):
            row = RunRow(run_id=queued.run_id, session_id="s", first_seq=first_seq)
            of_run = [(seq, event) for seq, event in log if run_of(event) == row.run_id and seq >= first_seq]
            yield row, [Record("s", seq, body=encode(event), decoded=event) for seq, event in of_run]


def alone(row: RunRow, records: Sequence[Record]) -> list[bytes | None]:
    frames = SharedFrames(row)
    return [frames.frame(record) for record in records]


@BOUNDED
@given(logs(), st.data())
def test_any_number_of_readers_gets_the_frames_of_one_p7(log: Log, data: st.DataObject) -> None:
    for row, records in runs_in(log):
        whole = alone(row, records)
        shared = SharedFrames(row, kept_bytes_max=data.draw(st.sampled_from([0, 300, 10**6])))
        at = [0, 0, 0]
        while any(place < len(records) for place in at):
            reader = data.draw(st.sampled_from([n for n, place in enumerate(at) if place < len(records)]))
            record = records[at[reader]]
            try:
                assert shared.frame(record) == whole[at[reader]]
            except FrameGone:
                # Such a reader goes on alone; what it has is a part of the whole.
                assert record.seq <= shared.last_seq
                at[reader] = len(records)
            else:
                at[reader] += 1


@BOUNDED
@given(logs(), st.data())
def test_a_reader_goes_on_with_the_frames_of_others_only_if_none_is_missing_p7(
    log: Log, data: st.DataObject
) -> None:
    for row, records in runs_in(log):
        whole = alone(row, records)
        read = RunsRead()
        first = read.frames(row, 0)
        for record in records[: data.draw(st.integers(0, len(records)))]:
            first.frame(record)
        seen = data.draw(st.integers(0, len(records)))
        after = records[seen - 1].seq if seen else 0
        frames = read.frames(row, after)
        begin = seen if frames.covers(after) else 0
        assert [frames.frame(record) for record in records[begin:]][seen - begin :] == whole[seen:]


async def test_a_reader_too_slow_for_the_shared_frames_makes_its_own_and_misses_nothing_p7() -> None:
    store = MemoryStore()
    fence = await begin(store, run_id="r1")
    said = [started("r1"), *(delta(f"{nth} ") for nth in range(20)), ended("r1")]
    await store.append_run("s1", said, fence=fence)
    row = await store.run("r1")
    assert row is not None
    shared = SharedFrames(row, kept_bytes_max=300)
    live = Live(dict, limits=Limits(), view="hermes")
    quick, slow = (HermesFeed(store, row, after=0, live=live, frames=shared) for _ in range(2))
    seen = [await _all(quick), await _all(slow)]
    assert seen[0] == seen[1]
    assert len(seen[0]) == len(said) + 2  # its queueing, and the comment after its end


async def _all(feed: HermesFeed) -> list[bytes]:
    found: list[bytes] = []
    while (frames := await feed.more()) is not None:
        found += frames
    return found
