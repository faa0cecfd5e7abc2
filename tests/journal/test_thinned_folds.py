"""A thinned log says what the log said: to every fold and view, from every cursor, however often."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from folds.golden import GOLDEN, LOGS, picture, read
from holdfast import events as e
from holdfast.cli.terminal.renderer import Renderer
from holdfast.cli.terminal.style import Style
from holdfast.codec import encode
from holdfast.folds import rows, session
from holdfast.folds import transcript as transcripts
from holdfast.folds.session_fold import RunReplay
from holdfast.folds.timeline import timeline
from holdfast.interfaces.journal import Record
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.server.streams.hermes import frame_of
from strategies.legal_logs import Log, logs

LATE_MS = 1 << 60
SLOW = settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@st.composite
def in_pieces(draw: st.DrawFn) -> Log:
    """A legal log in which each delta came in several pieces, mostly of a stretch that got whole."""
    events: list[e.Event] = []
    for _, event in draw(logs()):
        if not isinstance(event, e.TextDelta | e.ReasoningDelta):
            events.append(event)
            continue
        pieces = [replace(event, text=f"{event.text}{nth} ") for nth in range(draw(st.integers(1, 4)))]
        events += pieces
        if draw(st.booleans()):
            done = e.TextDone if isinstance(event, e.TextDelta) else e.ReasoningDone
            text = "".join([piece.text for piece in pieces])
            events.append(done(at_ms=event.at_ms, run_id=event.run_id, segment=event.segment, text=text))
    run = session.fold(enumerate(events, 1)).current_run
    if run is not None:
        events.append(e.RunEnded(at_ms=run.updated_ms + 1, run_id=run.run_id, outcome="completed"))
    return list(enumerate(events, 1))


def thinned(log: Log, *, before_ms: int = LATE_MS) -> Log:
    """The log as a store has it afterwards."""
    disk = MemoryDisk(logs={"s": [Record("s", seq, body=encode(event)) for seq, event in log]})
    gone = disk.thin("s", before_ms)
    assert len(disk.logs["s"]) == len(log) - gone
    return [(record.seq, record.event) for record in disk.logs["s"]]


def frames_of(log: Log, run_id: str) -> tuple[str, list[Any]]:
    """What a hermes client gets: all its text, and its other frames."""
    replay, said = RunReplay(run_id), ""
    others: list[Any] = []
    for seq, event in log:
        run = replay.apply(seq, event)
        frame = frame_of(event, run) if run is not None else None
        if frame is not None and frame["event"] == "message.delta":
            said += frame["delta"]
        elif frame is not None and frame["event"] != "reasoning.delta":
            others.append((seq, frame))
    return said, others


def views(log: Log) -> dict[str, Any]:
    """All that anyone is shown of a log."""
    seen = timeline(log)
    row = rows.SessionRow(session_id="s")
    for _, event in log:
        row = rows.apply_to_session(row, event)
    renderer = Renderer(Style(lambda: 80))
    return {
        "folds": picture(log),
        "row": row,
        "search": [found for seq, event in log if (found := rows.search_text(seq, event))],
        "hermes": {run_id: frames_of(log, run_id) for run_id in transcripts.fold(log).runs},
        "lines": [(line.seq, line.since_ms, line.type, line.text) for line in seen.lines],
        "spent": seen.spent_ms,
        "told": "".join([renderer.hear(event) for _, event in log]),
    }


@SLOW
@given(in_pieces())
def test_every_fold_and_view_of_a_thinned_log_is_that_of_the_log(log: Log) -> None:
    """P4, P7: transcript, context, rows, search, hermes frames, timeline and terminal; a second time too."""
    once = thinned(log)
    assert views(once) == views(log)
    assert thinned(once) == once
    assert {seq for seq, _ in once} <= {seq for seq, _ in log}


@SLOW
@given(in_pieces())
def test_who_has_read_any_part_before_goes_on_and_ends_with_the_same(log: Log) -> None:
    """P7: a cursor in a gap loses nothing and doubles nothing."""
    whole = transcripts.fold(log)
    after = thinned(log)
    for cursor in range(0, len(log), 3):
        seen = transcripts.fold(log[:cursor])
        for seq, event in after:
            transcripts.apply(seen, seq, event)
        assert seen == whole


def test_the_golden_logs_say_the_same_thinned() -> None:
    for path in LOGS:
        log = read(path)
        assert picture(thinned(log)) == picture(log)


def test_a_log_is_thinned_to_what_the_golden_one_is() -> None:
    """The page's fold is held to both of them."""
    log = thinned(read(GOLDEN / "deltas.jsonl"))
    assert log == read(GOLDEN / "deltas_thinned.jsonl")
    assert log[-1][0] - len(log) == 3 + 1 + 2 + 2 + 1


def test_runs_that_ended_later_keep_their_deltas() -> None:
    log: Log = [(1, e.SessionCreated(at_ms=1, epoch="e"))]
    for run_id, at_ms in (("r1", 100), ("r2", 200)):
        of_run: dict[str, Any] = {"at_ms": at_ms, "run_id": run_id}
        events: list[e.Event] = [
            e.RunQueued(message_id="m", **of_run),
            e.TextDelta(segment=0, text="a", **of_run),
            e.TextDelta(segment=0, text="b", **of_run),
            e.TextDone(segment=0, text="ab", **of_run),
            e.RunEnded(outcome="completed", **of_run),
        ]
        log += list(enumerate(events, len(log) + 1))
    assert [seq for seq, _ in thinned(log, before_ms=200)] == [1, 2, 3, 5, 6, 7, 8, 9, 10, 11]
    assert [seq for seq, _ in thinned(log, before_ms=201)] == [1, 2, 3, 5, 6, 7, 8, 10, 11]
