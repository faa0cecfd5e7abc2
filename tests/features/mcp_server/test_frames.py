"""Events as progress and results: the same log is told the same way forever."""

import json
from pathlib import Path
from typing import Any

from mcp_types import methods

from folds.golden import GOLDEN, LOGS, read
from holdfast import events as e
from holdfast.features.mcp_server.frames import (
    elicitation,
    progress_text,
    run_result,
    task_detail,
    waiting_result,
)
from holdfast.folds.asks import ask_event
from holdfast.folds.rows import RunRow, run_of
from holdfast.folds.session_fold import SessionFold
from tables import for_each_row

EXPECTED = Path(__file__).with_name("golden")
NAMES = [path.stem for path in LOGS]


def told(name: str) -> list[dict[str, Any]]:
    """Everything that a client could be told of a log, one line for each event that says something."""
    fold, said = SessionFold(), list[dict[str, Any]]()
    for seq, stored in read(GOLDEN / f"{name}.jsonl"):
        fold.apply(seq, stored)
        run = fold.runs.get(run_of(stored))
        if run is None:
            continue
        event = ask_event(stored)
        row = RunRow(run_id=run.state.run_id, session_id="s", first_seq=1)
        frame: dict[str, Any] = {}
        if text := progress_text(event, run):
            frame["progress"] = text
        if isinstance(event, e.ApprovalAsked | e.QuestionAsked):
            asks = {event.ask_id: event}
            frame |= {"form": elicitation(event), "task": task_detail(run, row, asks=asks)}
            frame["waits"] = waiting_result(event, row, can_answer=True)
        if isinstance(event, e.RunEnded):
            frame |= {"result": run_result(run, row), "task": task_detail(run, row, asks={})}
        if frame:
            said.append({"seq": seq, **frame})
    return said


def written(said: list[dict[str, Any]]) -> str:
    """The same as a file."""
    return json.dumps(said, indent=1, ensure_ascii=False) + "\n"


@for_each_row("name", NAMES)
def test_a_log_is_told_as_it_always_was(name: str) -> None:
    """P7; `PYTHONPATH=tests .venv/bin/python -m features.mcp_server.test_frames` writes the files anew."""
    said = told(name)
    assert written(said) == (EXPECTED / f"{name}.json").read_text()
    for frame in said:
        for result in (frame.get("result"), frame.get("waits")):
            if result is not None:
                methods.validate_server_result("tools/call", "2025-11-25", result)


if __name__ == "__main__":
    for one in NAMES:
        (EXPECTED / f"{one}.json").write_text(written(told(one)))
