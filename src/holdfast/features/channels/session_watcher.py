"""Watches the sessions of a channel's chats and logs their pending deliveries.

Computes notices for a chat during a run: its budget is running out, or a crash delayed it. Pure: logs in,
intents out. Each notice has a unique key, so it's sent once. Retried model calls cause no notice.
"""

import asyncio
import logging
from collections.abc import Iterator

from holdfast import events as e
from holdfast.agent.shared_fold import SharedFold
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.deliveries import (
    PlatformFormat,
    closed,
    delivery_for,
    pending_events,
    unanswered,
)
from holdfast.features.channels.deps import ChannelDeps
from holdfast.features.channels.state import ChannelState
from holdfast.features.channels.store_errors import BROKEN, OF_ONE_LOG
from holdfast.features.channels.texts import with_lead
from holdfast.folds.phases import Phase
from holdfast.folds.run import Run
from holdfast.folds.session_fold import SessionReadModel
from holdfast.values import Budget

BUDGET, RESUMED = "budget", "resumed"
WARN_AT = 0.8  # of the budget
NOTICED_MS = 60_000  # shorter downtimes aren't worth a notice


def notices(
    channel: ChannelState, session_id: str, session: SessionReadModel, *, budget: Budget, now_ms: int
) -> list[e.Event]:
    """Return the notices to append to the channel's log. `budget` is the server's limit for every run.

    Runs of schedules and webhooks cause no notices, because no one is waiting for them.
    """
    found: dict[str, e.DeliveryIntended] = {}
    for accepted in unanswered(channel, session_id):
        if accepted.is_from_elsewhere:
            continue
        message = session.session.inbox.messages.get(accepted.message_id)
        run = session.session.runs.get(message.run_id) if message is not None else None
        if run is None or run.phase is Phase.ENDED:
            continue
        for name, body in _of_run(run, budget):
            intended = delivery_for(accepted, run.run_id, now_ms=now_ms, message=name, body=body)
            found[intended.key] = intended
    return [one for key, one in found.items() if key not in channel.outbox.deliveries]


def _of_run(run: Run, budget: Budget) -> Iterator[tuple[str, str]]:
    if used := _nearly_used(run, (run.settings.budget or Budget()).within(budget)):
        yield (
            BUDGET,
            (f"This run has used more than {WARN_AT:.0%} of {used}. It stops when the budget is used up."),
        )
    if run.down_ms >= NOTICED_MS:
        minutes = max(1, round(run.down_ms / 60_000))
        for_how_long = "a minute" if minutes == 1 else f"{minutes} minutes"
        yield RESUMED, f"The server was down for {for_how_long}. The run continues now."


def _nearly_used(run: Run, budget: Budget) -> str:
    """Describe the part of the budget that is nearly used up, or return ""."""
    children = run.used_by_children
    cost_usd = run.known_cost_usd + children.cost_usd
    tokens = run.usage.input_tokens + run.usage.output_tokens + children.input_tokens + children.output_tokens
    if budget.cost_usd and cost_usd >= WARN_AT * budget.cost_usd:
        return f"its budget of {budget.cost_usd:g} USD"
    if budget.tokens and tokens >= WARN_AT * budget.tokens:
        return f"its budget of {budget.tokens:,} tokens"
    return ""


_log = logging.getLogger(__name__)


class SessionWatcher:
    """One task for each session with unanswered messages."""

    def __init__(self, deps: ChannelDeps, log: ChannelLog, *, text_format: PlatformFormat) -> None:
        self._deps = deps
        self._channel = log
        self._text_format = text_format
        self._sessions: set[str] = set()  # watched sessions

    async def run(self) -> None:
        """Watch until cancelled."""
        state = self._channel.state
        async with asyncio.TaskGroup() as tasks:
            while True:
                for session_id in {one.session_id for one in state.awaited.values()} - self._sessions:
                    self._sessions.add(session_id)
                    tasks.create_task(self._watch(session_id), name=f"watch {session_id}")
                await self._channel.until(
                    lambda: any(one.session_id not in self._sessions for one in state.awaited.values())
                )

    async def _watch(self, session_id: str) -> None:
        """Watch the session until everything is answered, or its log is unreadable."""
        try:
            await self._follow(session_id)
        except OF_ONE_LOG:
            _log.exception("channel %s: session %s can't be read", self._channel.log_id, session_id)
            await self._give_up(session_id)
        finally:
            # Immediately when nothing is awaited: a message accepted before a task callback would
            # stay unanswered until the next event.
            self._sessions.discard(session_id)

    async def _follow(self, session_id: str) -> None:
        """Check the session each time its log changes, until everything is answered."""
        view = await self._deps.supervisor.view(session_id)
        following = self._deps.store.follow(session_id, after=view.last_seq, pace="seldom")
        if not await self._look(session_id, view):
            return
        async for _ in following:
            if not await self._look(session_id, await self._deps.supervisor.view(session_id)):
                return
        await self._forget(session_id)

    async def _give_up(self, session_id: str) -> None:
        """Notify each waiting chat that the session's log is unreadable."""
        now_ms = self._deps.clock.now_ms()
        awaited = unanswered(self._channel.state, session_id)
        body = with_lead(BROKEN, self._text_format.lead)
        last = {one.chat: f"{one.message_id}.broken" for one in awaited}
        told = [
            e.DeliveryIntended(at_ms=now_ms, chat=chat, message=message, body=body)
            for chat, message in last.items()
        ]
        await self._channel.append(*told, *(closed(one, now_ms, "unreadable log") for one in awaited))

    async def _forget(self, session_id: str) -> None:
        """Close the messages of a purged session."""
        now_ms = self._deps.clock.now_ms()
        gone = [
            closed(one, now_ms, "session not found") for one in unanswered(self._channel.state, session_id)
        ]
        if gone:
            await self._channel.append(*gone)

    async def _look(self, session_id: str, view: SharedFold) -> bool:
        """Log pending deliveries. Returns False if everything is answered."""
        state = self._channel.state
        now_ms = self._deps.clock.now_ms()
        found = [
            *notices(state, session_id, view, budget=self._deps.budget, now_ms=now_ms),
            *pending_events(state, session_id, view, text_format=self._text_format, now_ms=now_ms),
        ]
        if found:
            await self._channel.append(*found)
        return bool(unanswered(state, session_id))
