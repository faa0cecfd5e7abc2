"""Events as AG-UI frames: the same log is told the same way forever."""

import json
from pathlib import Path
from typing import Any

from folds.golden import GOLDEN, LOGS, read
from holdfast import events as e
from holdfast.features.ag_ui.bodies import RunAgentInput
from holdfast.features.ag_ui.frames import AgUiEvent, AgUiView
from holdfast.folds.asks import ask_event
from holdfast.folds.rows import RunRow, run_of
from holdfast.folds.run import Tally
from holdfast.folds.session_fold import SessionFold
from holdfast.server.streams.shared_frames import added_by
from holdfast.server.streams.waiting import ResponseSpan
from tables import for_each_row

EXPECTED = Path(__file__).with_name("golden")
NAMES = [path.stem for path in LOGS]


def told(name: str) -> list[dict[str, Any]]:
    """The frames of a log, as a client gets them that asks for each part of a run as soon as it can."""
    fold, views, said = SessionFold(), dict[str, AgUiView](), list[dict[str, Any]]()

    def tell(seq: int, *frames: AgUiEvent | None) -> None:
        said.extend({"seq": seq, **frame} for frame in frames if frame is not None)

    for seq, stored in read(GOLDEN / f"{name}.jsonl"):
        fold.apply(seq, stored)
        run = fold.runs.get(run_id := run_of(stored))
        if run is None or run.state.run_id != run_id:
            continue
        if run_id not in views:
            row = RunRow(run_id=run_id, session_id="s", first_seq=1)
            wanted = RunAgentInput(thread_id="s", run_id=f"{run_id}@{seq}")
            views[run_id] = AgUiView(row, wanted, after=seq)
            tell(seq, views[run_id].begin())
        event = ask_event(stored)
        if isinstance(event, e.RunEnded | e.ClientToolsAsked | e.PersonAsked):
            client = event if isinstance(event, e.ClientToolsAsked) else None
            person = event if isinstance(event, e.PersonAsked) else None
            tell(seq, *views.pop(run_id).end(ResponseSpan(run, client, person, used=Tally())))
        else:
            tell(seq, views[run_id].add(event, added_by(event, run), run))
    return said


def written(said: list[dict[str, Any]]) -> str:
    """The same as a file, one frame in a line."""
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in said)


@for_each_row("name", NAMES)
def test_a_log_is_told_as_it_always_was(name: str) -> None:
    """P7; `PYTHONPATH=tests .venv/bin/python -m features.ag_ui.test_frames` writes the files anew."""
    assert written(told(name)) == (EXPECTED / f"{name}.jsonl").read_text()


if __name__ == "__main__":
    for one in NAMES:
        (EXPECTED / f"{one}.jsonl").write_text(written(told(one)))
