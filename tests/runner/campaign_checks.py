"""What must hold after any number of crashes: the log against what outside witnesses know."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from holdfast import events as e
from holdfast.folds import session, transcript
from holdfast.folds.entries import Person
from holdfast.folds.inputs import MessageState
from holdfast.folds.phases import Phase
from holdfast.folds.session import Session
from holdfast.interfaces.journal import Record, Store
from runner.campaign_users import Witness
from stores import SqliteStore

HAPPENED = "finished"
MAY_HAVE_HAPPENED = {"unknown", "killed"}


@dataclass(slots=True)
class Findings:
    """What the logs hold, counted; `broken` names every promise that was not kept."""

    broken: list[str] = field(default_factory=list[str])
    events: int = 0
    runs: int = 0
    resumed: int = 0
    effects: int = 0
    unknown: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])

    def insist(self, *, that: bool, or_else: str) -> None:
        """A promise."""
        if not that:
            self.broken.append(or_else)


def effects_in(file: Path) -> Counter[str]:
    """The effects that a file has received, and how often."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return Counter(line.removeprefix("effect=") for line in lines)


async def checked(folder: Path, witness: Witness, *, names: Sequence[str]) -> Findings:
    """What is found in the data directory and the workspace of a server that has ended."""
    store = await SqliteStore.open(folder / "data" / "holdfast.db")
    try:
        return await check(store, witness, names=names, effects_file=folder / "work" / "effects")
    finally:
        await store.close()


async def check(store: Store, witness: Witness, *, names: Sequence[str], effects_file: Path) -> Findings:
    """Read every log and compare."""
    findings = Findings()
    happened = witness.received + await asyncio.to_thread(effects_in, effects_file)
    told: dict[str, list[e.ToolEnded]] = {}
    for name in names:
        records: list[Record] = []
        while more := await store.read(name, after=len(records)):
            records.extend(more)
        _check_log(findings, witness, name=name, records=records)
        _gather_effects(told, records)
    _check_effects(findings, told, happened)
    return findings


def check_shown(findings: Findings, witness: Witness, *, name: str, records: Sequence[Record]) -> None:
    """Everything that was shown of a session is in its log as it was shown, and no seq is missing."""
    seqs = [record.seq for record in records]
    findings.insist(that=seqs == list(range(1, len(seqs) + 1)), or_else=f"{name}: seqs have gaps")
    kept = {record.seq: {"seq": record.seq} | json.loads(record.body) for record in records}
    for (session_id, seq), data in witness.shown.items():
        if session_id == name:
            taken_back = f"{name} {seq}: shown and not kept: {data}"
            findings.insist(that=kept.get(seq) == data, or_else=taken_back)


def _check_log(findings: Findings, witness: Witness, *, name: str, records: list[Record]) -> None:
    findings.events += len(records)
    check_shown(findings, witness, name=name, records=records)
    pairs = [(record.seq, record.event) for record in records]
    state = session.fold(pairs)  # raises if anything illegal happened, a second ending for instance
    seen = transcript.fold(pairs)
    said = Counter(entry.message.text for entry in seen.entries if isinstance(entry, Person))
    _check_inputs(findings, witness, name=name, state=state, said=said)
    for run in state.runs.values():
        findings.runs += 1
        findings.resumed += run.resumptions
        findings.outcomes[f"{run.outcome} {run.cause}".strip()] += 1
        findings.insist(
            that=run.phase is Phase.ENDED, or_else=f"{name}: {run.run_id} has no ending: {run.phase}"
        )


def _check_inputs(
    findings: Findings, witness: Witness, *, name: str, state: Session, said: Counter[str]
) -> None:
    """Every input that was accepted is there once, and someone has it."""
    messages = {message.text: message for message in state.inbox.messages.values()}
    texts = Counter(message.text for message in state.inbox.messages.values())
    of_session = [text for text in (*witness.sent, *witness.steered) if f" {name}-" in text]
    for text in of_session:
        findings.insist(that=texts[text] == 1, or_else=f"{text!r} was accepted {texts[text]} times")
        message = messages.get(text)
        taken = message is not None and message.state is MessageState.DISPATCHED
        findings.insist(that=taken, or_else=f"{text!r} was never taken up")
        was_begun = message is not None and "run.started" in _began(state, message.run_id)
        if was_begun:
            findings.insist(that=said[text] == 1, or_else=f"{text!r} is in the transcript {said[text]} times")
        if text in witness.sent:
            run = state.runs.get(witness.sent[text])
            findings.insist(that=run is not None, or_else=f"the run of {text!r} is unknown")


def _began(state: Session, run_id: str) -> str:
    run = state.runs.get(run_id)
    return "run.started" if run is not None and run.call_id else ""


def _gather_effects(told: dict[str, list[e.ToolEnded]], records: Sequence[Record]) -> None:
    """What the logs say about each effect: how its tool calls ended."""
    names: dict[tuple[str, str], str] = {}
    for record in records:
        event = record.event
        if isinstance(event, e.ToolAsked) and "effect=" in str(event.args.get("command", "")):
            command = str(event.args["command"])
            names[event.run_id, event.tool_call_id] = (
                command.split("effect=")[1].split(maxsplit=1)[0].rstrip(";")
            )
        elif isinstance(event, e.ToolEnded) and (event.run_id, event.tool_call_id) in names:
            told.setdefault(names[event.run_id, event.tool_call_id], []).append(event)


def _check_effects(findings: Findings, told: dict[str, list[e.ToolEnded]], happened: Counter[str]) -> None:
    for effect in happened:
        findings.insist(that=effect in told, or_else=f"effect {effect} happened, and no log knows of it")
    for effect, ends in told.items():
        surely = sum(end.ending == HAPPENED and end.ok for end in ends)
        perhaps = sum(end.ending in MAY_HAVE_HAPPENED for end in ends)
        count = happened[effect]
        findings.effects += count
        findings.unknown += perhaps
        findings.insist(that=count <= 1, or_else=f"effect {effect} happened {count} times")
        findings.insist(
            that=surely <= count <= surely + perhaps,
            or_else=f"effect {effect} happened {count} times, the log says {[end.ending for end in ends]}",
        )
