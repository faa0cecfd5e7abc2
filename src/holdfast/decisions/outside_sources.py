"""Where a run's context comes from: whether the model saw anything but its owner's own words.

A model that has seen a web page can be made to say anything, and can't tell where it got it from. So this
looks at what the model was shown, and never at what it says.
"""

from collections.abc import Iterator

from holdfast.folds.context import since_summary
from holdfast.folds.entries import Entry, Person, ToolCard
from holdfast.folds.run_view import RunView
from holdfast.folds.session import Session
from holdfast.folds.transcript import Transcript
from holdfast.policy.tool_names import FINISH_GOAL, PROPOSE_SKILL, REMEMBER, UPDATE_PLAN
from holdfast.values import PEOPLE_SOURCES

# The results of these have fixed words of ours.
_OWN_RESULTS = frozenset({FINISH_GOAL, PROPOSE_SKILL, REMEMBER, UPDATE_PLAN})


def outside_sources(session: Session, transcript: Transcript, run_id: str) -> tuple[str, ...]:
    """Describe the run's context besides system text and the owner's own messages.

    Empty if there is nothing else.
    """
    run = transcript.runs[run_id]
    summary, entries = since_summary(transcript, run_id)
    found: dict[str, None] = {}
    if session.source not in PEOPLE_SOURCES:
        found["the messages weren't typed by a person on the page or in the terminal"] = None
    if session.forked_from is not None:
        found["parts were copied from another session"] = None
    if summary is not None:
        found["earlier messages were replaced by a summary"] = None
    runs = {entry.run_id: None for entry in entries} | {run_id: None}
    if transcript.context is not None:
        runs[transcript.context.run_id] = None  # the system text is of its time, even if the run was rewound
    for one in runs:
        found |= dict.fromkeys(_of_run(transcript.runs[one], run))
    for entry in entries:
        found |= dict.fromkeys(_of_entry(entry, session, transcript, run))
    return tuple(found)


def _of_run(one: RunView, run: RunView) -> Iterator[str]:
    if one.history is not None:
        yield "a client sent the history along"
    if one.key != run.key:
        yield "someone else started a run in this conversation"
    if one.is_given_more:
        yield "a client sent instructions or tools of its own along"
    yield from one.sources


def _is_own_result(card: ToolCard, session: Session, transcript: Transcript) -> bool:
    """Whether the result has fixed words of ours alone; what someone answered to an ask is their words."""
    asks = transcript.runs[card.run_id].asks.values()
    call = session.runs[card.run_id].tools.get(card.tool_call_id)  # None if its id was used again
    return (
        call is not None
        and call.own_tool in _OWN_RESULTS
        and all(ask.tool_call_id != card.tool_call_id for ask in asks)
    )


def _of_entry(entry: Entry, session: Session, transcript: Transcript, run: RunView) -> Iterator[str]:
    match entry:
        case ToolCard() if entry.state == "ended" and not _is_own_result(entry, session, transcript):
            yield f"the result of the tool {entry.name}"
        case Person():
            if entry.message.parts:
                yield "an attachment"
            # A program may write into a conversation of its owner, with the same key.
            if transcript.inbox.sources.get(entry.message.message_id, "") not in {"", *PEOPLE_SOURCES}:
                yield "a program sent a message"
            if transcript.inbox.keys.get(entry.message.message_id, set()) - {run.key}:
                yield "someone else wrote in this conversation"
        case _:
            pass
