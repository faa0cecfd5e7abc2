"""Logs as updates for an editor: as they happen, and when a session is opened; the same forever."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acp.schema import ToolCallUpdate

from folds.golden import GOLDEN, LOGS, read
from holdfast import events as e
from holdfast.features.acp.updates import Update, card_of, entry_updates, event_updates, permission
from holdfast.folds.asks import ask_event
from holdfast.folds.rows import run_of
from holdfast.folds.session_fold import SessionFold

EXPECTED = Path(__file__).with_name("golden")
NAMES = [path.stem for path in LOGS]


def told(name: str) -> Iterator[dict[str, Any]]:
    """Everything that an editor is told of a log."""
    fold = SessionFold()
    for seq, event in read(GOLDEN / f"{name}.jsonl"):
        fold.apply(seq, event)
        if (run := fold.runs.get(run_of(event))) is not None:
            if isinstance(asked := ask_event(event), e.ApprovalAsked):
                yield {"seq": seq, **_shown(permission(asked, card_of(run, asked.tool_call_id), "/w"))}
            for update in event_updates(event, run, "/w"):
                yield {"seq": seq, **_shown(update)}
    for entry in fold.transcript.entries:
        for update in entry_updates(entry, "/w"):
            yield {"loaded": True, **_shown(update)}


def _shown(update: Update | ToolCallUpdate) -> dict[str, Any]:
    return update.model_dump(mode="json", by_alias=True, exclude_none=True)


def written(name: str) -> str:
    """The same as a file, one update in a line."""
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in told(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_log_is_told_as_it_always_was(name: str) -> None:
    """P7; `PYTHONPATH=tests .venv/bin/python -m features.acp.test_updates` writes the files anew."""
    assert written(name) == (EXPECTED / f"{name}.jsonl").read_text()


if __name__ == "__main__":
    for one in NAMES:
        (EXPECTED / f"{one}.jsonl").write_text(written(one))
