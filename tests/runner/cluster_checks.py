"""What must hold in addition if several servers share a database: one of them at a time works on a run."""

from collections.abc import Sequence

from holdfast import events as e
from holdfast.interfaces.journal import Record
from runner.campaign_checks import Findings
from runner.campaign_model import words
from runner.campaign_users import Witness


def check_texts(findings: Findings, name: str, records: Sequence[Record]) -> None:
    """One server alone writes an attempt's text, and a resumed run says nothing before its next attempt."""
    said: dict[str, str] = {}
    silent: set[str] = set()
    for record in records:
        event = record.event
        if isinstance(event, e.RunResumed):
            silent.add(event.run_id)
        elif isinstance(event, e.AttemptStarted):
            silent.discard(event.run_id)
            said[event.run_id] = ""
        elif isinstance(event, e.TextDelta):
            findings.insist(
                that=event.run_id not in silent,
                or_else=f"{name} {record.seq}: output of a dead server after its run was resumed",
            )
            said[event.run_id] = text = said.get(event.run_id, "") + event.text
            first = text.split(":")[0]
            if " " not in first and first.startswith(f"{name}-") and ":" in text:
                findings.insist(
                    that=words(first, 200).startswith(text) or text.endswith("is cut"),
                    or_else=f"{name} {record.seq}: two servers wrote one text: {text[-200:]!r}",
                )


def check_stops(findings: Findings, witness: Witness, name: str, records: Sequence[Record]) -> None:
    """A run that was stopped isn't resumed afterwards, and a stop that was accepted is on the log."""
    stopped: set[str] = set()
    mine: set[str] = set()
    for record in records:
        event = record.event
        if isinstance(event, e.RunQueued):
            mine.add(event.run_id)
        elif isinstance(event, e.StopRequested):
            stopped.add(event.run_id)
        elif isinstance(event, e.RunResumed):
            findings.insist(
                that=event.run_id not in stopped,
                or_else=f"{name} {record.seq}: {event.run_id} was resumed after it was stopped",
            )
    ended = {r.event.run_id for r in records if isinstance(r.event, e.RunEnded)}
    for run_id in witness.stopped & mine:
        findings.insist(
            that=run_id in stopped or run_id in ended, or_else=f"{name}: the stop of {run_id} was lost"
        )
