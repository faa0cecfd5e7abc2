"""Continuing after an earlier response: in its session if it's the newest there, else with its history."""

import re

from holdfast.folds.context import context_for
from holdfast.folds.entries import Person
from holdfast.folds.rows import RunRow
from holdfast.folds.session import Session
from holdfast.folds.transcript import Transcript
from holdfast.interfaces.ids import new_session_id
from holdfast.messages import AssistantMessage, SaidText, UserMessage
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem
from holdfast.server.streams.waiting import NO_RETRY, wait_for_abandoned_run
from holdfast.values import HistoryMessage

_PREFIX = "resp_"
_SEQ = re.compile("[0-9]{1,18}")


def response_id(run_id: str, *, after: int = 0) -> str:
    """The id of a run's response: a response is a view of a run.

    A run that waits for results of the client's tools has another response `after` each such wait.
    """
    return _PREFIX + run_id.removeprefix("run_") + (f"_{after}" if after else "")


def run_id_of(response: str) -> str:
    """The run that the response is a view of."""
    return "run_" + response.removeprefix(_PREFIX).partition("_")[0]


def response_begins_after(response: str) -> int:
    """The event of its run after which a response begins; 0 for the first."""
    after = response.removeprefix(_PREFIX).partition("_")[2]
    return int(after) if _SEQ.fullmatch(after) else 0


def hidden_note(session_id: str, response: str) -> str:
    """The note that hides a response; it's purged with its session."""
    return f"session/{session_id}/hidden_response/{response}"


async def response_row(deps: RouteDeps, response: str, *, param: str) -> RunRow:
    """The run of a response; raises a Problem if there is none that may be seen."""
    row = await deps.store.run(run_id_of(response)) if response.startswith(_PREFIX) else None
    if row is not None and response != response_id(row.run_id):
        after = response_begins_after(response)
        asks = (await deps.folds.run(row)).view.client_asks
        row = row if after in asks and response == response_id(row.run_id, after=after) else None
    if row is None or not await _may_be_seen(deps, row.session_id, response=response):
        raise Problem(404, f"Response not found: {response[:100]}", code="response_not_found", param=param)
    return row


async def _may_be_seen(deps: RouteDeps, session_id: str, *, response: str) -> bool:
    """Return whether a response is visible: neither hidden nor in a deleted session."""
    session = await deps.store.session(session_id)
    if session is None or session.purge_at_ms:
        return False
    return await deps.store.note(hidden_note(session_id, response)) is None


async def await_continuation(deps: RouteDeps, response: str) -> tuple[str, tuple[HistoryMessage, ...] | None]:
    """The session to continue in, and the history if that session has moved on since."""
    row = await response_row(deps, response, param="previous_response_id")
    state, seen = await deps.folds.session(row.session_id)
    if _is_taken_back(seen, row.run_id):
        raise Problem(
            409,
            "This response was superseded: its session was rewound, or its message was run again. Continue "
            "from a newer response",
            code="response_rewound",
            param="previous_response_id",
            headers=NO_RETRY,
        )
    at = list(state.runs).index(row.run_id) + 1
    upto = [run_id for run_id in list(state.runs)[:at] if not _never_began(seen, run_id)]
    if all(_never_began(seen, run_id) for run_id in list(state.runs)[at:]):
        return row.session_id, await await_given_history(deps, row.session_id)
    history = await _await_history(deps, row.session_id, run_id=upto[-1]) if upto else ()
    return new_session_id(), history


async def await_given_history(deps: RouteDeps, session_id: str) -> tuple[HistoryMessage, ...] | None:
    """The history for the next run, if the newest run's own history isn't in the log."""
    state, seen = await deps.folds.session(session_id)
    run_id = _newest(state, seen)
    if not run_id or not seen.runs[run_id].history:
        return None
    return await _await_history(deps, session_id, run_id=run_id)


async def await_session_history(deps: RouteDeps, session_id: str) -> tuple[HistoryMessage, ...]:
    """The history of a session so far; empty if it's new."""
    if await deps.store.session(session_id) is None:
        return ()
    run_id = _newest(*await deps.folds.session(session_id))
    return await _await_history(deps, session_id, run_id=run_id) if run_id else ()


def counted_runs(state: Session, seen: Transcript) -> list[str]:
    """The runs that were neither rewound nor stopped before they began, in order."""
    return [
        run_id for run_id in state.runs if not _is_taken_back(seen, run_id) and not _never_began(seen, run_id)
    ]


def _newest(state: Session, seen: Transcript) -> str:
    """The newest run that counts, if any."""
    return next(reversed(counted_runs(state, seen)), "")


def _never_began(seen: Transcript, run_id: str) -> bool:
    """Whether the run ended while it was queued, so that it added nothing to the conversation."""
    run = seen.runs[run_id]
    return run.ending is not None and not run.has_begun


def _is_taken_back(seen: Transcript, run_id: str) -> bool:
    """Whether the run was rewound out of its session."""
    if seen.runs[run_id].ending is None:
        return False
    return not any(entry.run_id == run_id and not isinstance(entry, Person) for entry in seen.entries)


async def _await_history(deps: RouteDeps, session_id: str, *, run_id: str) -> tuple[HistoryMessage, ...]:
    """Wait for the run's end and return the history up to there; raises a Problem if it takes too long.

    A run's history is fixed when it's queued, so the previous answer must be complete by then.
    """
    _, seen = await deps.folds.session(session_id)
    if seen.runs[run_id].ending is None:
        await wait_for_abandoned_run(deps, run_id)
        _, seen = await deps.folds.session(session_id)
    if seen.runs[run_id].ending is None:
        raise Problem(
            409,
            "The previous answer is still being written. Send the message again when it's finished",
            code="session_busy",
            headers={"Retry-After": "2"},
        )
    history: list[HistoryMessage] = []
    for message in context_for(seen, run_id):
        if isinstance(message, UserMessage):
            history.append(HistoryMessage(role="user", content=message.text, parts=message.parts))
        elif isinstance(message, AssistantMessage):
            text = "".join(said.text for said in message.items if isinstance(said, SaidText))
            if text:
                history.append(HistoryMessage(role="assistant", content=text))
    return tuple(history)
