"""Forks: a copy of a session's log, up to any seq, to continue from."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast import events as e
from holdfast.agent.policy import Judge
from holdfast.events import Event
from holdfast.events.modes import mode_set
from holdfast.folds import session
from holdfast.folds.session import Session
from holdfast.interfaces.ids import new_epoch
from holdfast.interfaces.journal import Journal
from holdfast.values import ApprovalMode, asks_less

READ_AT_ONCE = 1_000


class SourceGone(Exception):
    """The session was purged while it was copied."""


class ForkSource(Struct, frozen=True):
    """The session that is forked, as it is now, and the loosest mode that the fork can have."""

    session_id: str
    session: Session
    mode_max: Literal["", ApprovalMode]  # empty: as configured


async def forked_log(
    journal: Journal, source: ForkSource, *, at_seq: int, judge: Judge, now_ms: int
) -> list[Event]:
    """Build a fork: the source's events up to a seq, and endings for everything active there.

    Permissions at that seq count only if they still hold.
    """
    events: list[Event] = []
    seqs: list[int] = []
    state = Session()
    at = 0
    while at < at_seq:
        records = await journal.read(source.session_id, after=at, limit=READ_AT_ONCE)
        if not records:
            raise SourceGone(source.session_id)
        at = records[-1].seq
        for record in records:
            if record.seq > at_seq:
                break
            seqs.append(record.seq)
            events.append(_renumbered(record.event, seqs))
            session.apply(state, record.seq, record.event)
    first = events[0]
    assert isinstance(first, e.SessionCreated), "a log begins with its creation"
    # A fork of a sub-agent's session has no parent that waits for it.
    events[0] = replace(first, epoch=new_epoch(), parent=None)
    events.append(e.SessionForked(at_ms=now_ms, source_session_id=source.session_id, at_seq=at_seq))
    allowed = [*_ungranted(state, source, now_ms), *_limited(state, source, judge, now_ms)]
    return [*events, *_closed(state, now_ms), *allowed, *_shown_again(state, now_ms)]


def _renumbered(event: Event, seqs: Sequence[int]) -> Event:
    """The event with its seqs changed to those of the copy, which has no gaps."""
    match event:
        case e.SessionRewound():
            return replace(event, to_seq=bisect_right(seqs, event.to_seq))
        case e.ContextCompacted():
            return replace(event, upto_seq=bisect_right(seqs, event.upto_seq))
        case e.ContextReverted():
            return replace(event, reverted_seq=bisect_right(seqs, event.reverted_seq))
        case _:
            return event


def _shown_again(state: Session, now_ms: int) -> list[Event]:
    """A fork is neither archived, deleted nor paused, even if its source is."""
    changes: list[Event] = [e.SessionUnarchived(at_ms=now_ms)] if state.archived else []
    changes += [e.SessionRestored(at_ms=now_ms)] if state.purge_at_ms is not None else []
    changes += [e.QueueResumed(at_ms=now_ms)] if state.queue_paused else []
    return changes


def _closed(state: Session, now_ms: int) -> list[Event]:
    """Return endings for everything active at the fork, which continues only in the source."""
    removed = [e.MessageRemoved(at_ms=now_ms, message_id=one.message_id) for one in state.inbox.waiting()]
    ended = [
        e.RunEnded(at_ms=now_ms, run_id=run.run_id, outcome="interrupted", cause="forked")
        for run in state.open_runs
    ]
    return [*removed, *ended]


def _ungranted(state: Session, source: ForkSource, now_ms: int) -> list[Event]:
    """Remove grants that were revoked since; permanent ones are valid in the fork without its log."""
    return [
        e.GrantRemoved(at_ms=now_ms, grant_id=grant.grant_id)
        for grant in state.grants.values()
        if grant.scope == "always" or grant.grant_id not in source.session.grants
    ]


def _limited(state: Session, source: ForkSource, judge: Judge, now_ms: int) -> list[Event]:
    """Set the loosest mode that the fork can have, if the copied log has a looser one."""
    mode = judge.in_mode(state.approval_mode).applied_mode()
    if not asks_less(mode, judge.in_mode(source.mode_max).applied_mode()):
        return []
    now = source.session
    return [mode_set(source.mode_max, at_ms=now_ms, by=now.mode_set_by, workspace=now.mode_workspace)]
