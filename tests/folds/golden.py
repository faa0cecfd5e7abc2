"""Logs as they stand on disk, and what every fold of them (here, and the page's in TypeScript) must show.

A line is a native record: seq, then the stored body. Beside each log, NAME.expected.json holds its picture.
After an intended change, draw the pictures anew and read the difference:
`PYTHONPATH=tests .venv/bin/python -m folds.golden`.
"""

from pathlib import Path
from typing import Any

import msgspec

from holdfast.codec import UPCASTS, Upcast, decode
from holdfast.features.plans.events import PlanUpdated
from holdfast.folds import session as sessions
from holdfast.folds import transcript as transcripts
from holdfast.folds.context import context_for
from holdfast.folds.entries import entry_json
from holdfast.folds.run import Run
from holdfast.folds.session import Session
from holdfast.folds.transcript import Transcript, interruption_text, output
from holdfast.server.sessions.window import undo_shown
from strategies.legal_logs import Log

GOLDEN = Path(__file__).parents[1] / "golden"
LOGS = sorted(GOLDEN.glob("*.jsonl"))


def _first_to_second(record: dict[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in record.items() if key not in {"type", "delta"}}
    return {"type": "text.delta/1", "text": record["delta"], **rest}


def _second_to_current(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "type": "text.delta", "segment": 0}


# no event has an older version yet, so this log has made-up ones
OLDER: dict[str, Upcast] = {
    **UPCASTS,
    "text.delta/0": _first_to_second,
    "text.delta/1": _second_to_current,
}


class _Place(msgspec.Struct):
    seq: int


def read(path: Path) -> Log:
    lines = path.read_bytes().splitlines()
    seqs = [msgspec.json.decode(line, type=_Place).seq for line in lines]
    return [
        (seq, decode(line, where=f"{path.name} seq {seq}", upcasts=OLDER))
        for seq, line in zip(seqs, lines, strict=True)
    ]


def _run_picture(run: Run) -> dict[str, Any]:
    return {
        "status": run.status,
        "outcome": run.outcome,
        "cause": run.cause,
        "stop_cause": run.stop_cause,
        "failure": run.failure,
        "last_event": run.last_event,
        "target": run.target,
        "turns": run.turns,
        "tools": {
            id_: tool.ended.ending if tool.ended else "started" if tool.started else "asked"
            for id_, tool in run.tools.items()
        },
        "asks": {id_: ask.state for id_, ask in run.asks.items()},
        "usage": run.usage,
        "gate_until_ms": run.gate_until_ms,
        "resumptions": run.resumptions,
        "resumptions_without_progress": run.resumptions_without_progress,
        "recovered": run.recovered,
    }


def _session_picture(session: Session) -> dict[str, Any]:
    messages = session.inbox.messages
    return {
        "last_seq": session.last_seq,
        "title": session.title,
        "queue_paused": session.queue_paused,
        "forked_from": session.forked_from,
        "queue": session.inbox.queue,
        "steering": session.inbox.steering,
        "messages": {
            id_: {"state": m.state, "run_id": m.run_id, "text": m.text} for id_, m in messages.items()
        },
        "grants": list(session.grants),
        "runs": {id_: _run_picture(run) for id_, run in session.runs.items()},
        **({"undos": [undo_shown(each) for each in session.undos.values()]} if session.undos else {}),
    }


def _transcript_picture(transcript: Transcript) -> dict[str, Any]:
    plans = [(seq, event.steps) for seq, event in transcript.kept if isinstance(event, PlanUpdated)]
    return {
        "entries": [entry_json(entry) for entry in transcript.entries],
        "waiting": [message.message_id for message in transcript.inbox.waiting()],
        "outputs": {run_id: output(transcript, run_id) for run_id in transcript.runs},
        "marks": {
            run_id: interruption_text(transcript, run_id, now_ms=run.updated_ms, owner_gone=True)
            for run_id, run in transcript.runs.items()
        },
        "context": {run_id: context_for(transcript, run_id) for run_id in transcript.runs},
        **({"plans": plans} if plans else {}),
    }


def picture(log: Log) -> Any:
    """All that the folds make of a log, as JSON."""
    drawn = {"session": _session_picture(sessions.fold(log)), **_transcript_picture(transcripts.fold(log))}
    return msgspec.json.decode(msgspec.json.encode(drawn))


def expected(path: Path) -> Path:
    return path.with_suffix(".expected.json")


def draw_all() -> None:
    """Writes the pictures of all golden logs."""
    for path in LOGS:
        text = msgspec.json.format(msgspec.json.encode(picture(read(path))), indent=1)
        expected(path).write_bytes(text + b"\n")


if __name__ == "__main__":
    draw_all()
