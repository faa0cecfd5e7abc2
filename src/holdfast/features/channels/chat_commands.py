"""The chat commands and their replies."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from holdfast import events as e
from holdfast.catalog import FEATURES
from holdfast.features.channels.approvals import Answerer, ChannelAsks
from holdfast.features.channels.cards import several
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions
from holdfast.features.channels.events import (
    ChannelChatBound,
    ChannelHomeChosen,
    ChannelModelChosen,
)
from holdfast.features.channels.modes import mode_command
from holdfast.features.channels.state import ChannelState
from holdfast.features.channels.store_errors import readable_view
from holdfast.features.channels.texts import COMMANDS, help_text
from holdfast.folds.asks import ask_kind
from holdfast.folds.inputs import SessionMessage
from holdfast.folds.run import Run
from holdfast.folds.session import Session
from holdfast.interfaces.ids import derived_session_id
from holdfast.interfaces.journal import Replayed
from holdfast.runner.inbox import NotSent, OnceFor, Sent
from holdfast.safe_text import safe_line

NEW = "Started a new conversation."
STILL_AT_WORK = (
    "The agent is still working on your earlier request and will answer it here. Send /stop to stop it."
)
EARLIER = "The agent is still working on an earlier conversation in this chat."
GONE = "This conversation was deleted. Your next message starts a new one."
HOME = "Results that are sent to `{name}` now arrive in this chat."
HOME_NOT_YOURS = "You don't have permission to choose where results arrive."
NOTHING_YET = "No conversation yet. Send a message first."
LINE_CHARS_MAX = 80
LASTING = ("session", "always")  # arguments of /approve, after the id or instead of it


class CommandDone(Struct, frozen=True):
    """A command's reply, its events for the channel's log, and the message it ran again."""

    text: str = ""
    events: tuple[e.Event, ...] = ()
    awaits: Sent | None = None


def command_of(text: str, *, leads: str = "/") -> tuple[str, str] | None:
    """Parse a command and its argument; None if the text is a message."""
    if not text.startswith(tuple(leads)):
        return None
    word, _, rest = text[1:].partition(" ")
    name = word.partition("@")[0].lower()
    name = "help" if name == "start" else name
    return (name, rest.strip()) if name in COMMANDS else None


def next_session(log_id: str, state: ChannelState, chat: str) -> str:
    """Return the id of the chat's next session. Stable until it's bound."""
    return derived_session_id(log_id, chat, str(state.bound.get(chat, 0) + 1))


class ChatCommands:
    """Runs commands for one channel."""

    def __init__(
        self, deps: ChannelDeps, options: ChannelOptions, log_id: str, state: ChannelState, asks: ChannelAsks
    ) -> None:
        self._deps = deps
        self._options = options
        self._log_id = log_id
        self._state = state
        self._asks = asks

    async def carry_out(self, command: tuple[str, str], who: Answerer, *, once: OnceFor) -> CommandDone:
        """Run the command. `once` makes it idempotent."""
        name, rest = command
        match name:
            case "new":
                session_id = next_session(self._log_id, self._state, who.chat)
                bound = ChannelChatBound(
                    at_ms=self._deps.clock.now_ms(), chat=who.chat, session_id=session_id
                )
                at_work = await self._at_work(self._state.sessions_in(who.chat))
                return CommandDone(NEW if not at_work else f"{NEW} {STILL_AT_WORK}", (bound,))
            case "help":
                return CommandDone(help_text())
            case "model":
                return self._model(who.chat, rest)
            case "home":
                return self._home(who)
            case "approve" | "deny":
                return CommandDone(await self._decide(name, rest, who))
            case _:
                return await self._about_session(command, who, once=once)

    def _home(self, who: Answerer) -> CommandDone:
        if not self._asks.is_approver(who):
            return CommandDone(HOME_NOT_YOURS)
        chosen = ChannelHomeChosen(at_ms=self._deps.clock.now_ms(), chat=who.chat, by=who.user)
        return CommandDone(HOME.format(name=self._options.name), (chosen,))

    def _model(self, chat: str, wanted: str) -> CommandDone:
        known = self._deps.models()
        if not wanted:
            now = self._state.models.get(chat) or (known[0] if known else "the default")
            listed = ", ".join(f"`{name}`" for name in known)
            return CommandDone(
                f"Current model: {now}. Available: {listed}.\n\nTo change it, send /model NAME."
            )
        if wanted not in known:
            listed = ", ".join(f"`{name}`" for name in known)
            return CommandDone(f"Unknown model `{wanted}`. Available: {listed}.")
        chosen = ChannelModelChosen(at_ms=self._deps.clock.now_ms(), chat=chat, model=wanted)
        return CommandDone(f"Your next message goes to {wanted}.", (chosen,))

    async def _decide(self, name: str, rest: str, who: Answerer) -> str:
        """Answer the request with this id, or the only open one."""
        found = await self._asks.open_asks(*self._state.sessions_reported_in(who.chat))
        asks = [ask for ask in found if ask_kind(ask.asked) == "approval"]
        words = rest.lower().split(maxsplit=1)
        ask_id = words.pop(0) if words and words[0] not in LASTING else ""
        choice = "deny" if name == "deny" else "".join(words) or "once"
        if not ask_id and len(asks) == 1 and await self._asks.is_on_card(asks[0]):
            ask_id = asks[0].asked.ask_id
        if not ask_id:
            asks = asks or await self._asks.waiting_elsewhere(who)
            return "No pending approval requests." if not asks else several(asks, name)
        return await self._asks.decide(ask_id, choice, who)

    async def _about_session(self, command: tuple[str, str], who: Answerer, *, once: OnceFor) -> CommandDone:
        name, rest = command
        session_id = self._state.sessions.get(who.chat)
        if session_id is None:
            return CommandDone(NOTHING_YET)
        session = await self._deps.inbox.state(session_id)
        match name:
            case "stop":
                return CommandDone(await self._stop_all(who))
            case "status":
                others = [one for one in self._state.sessions_in(who.chat) if one != session_id]
                earlier = EARLIER if await self._at_work(others) else ""
                now = _status(session) if session.open_runs or not earlier else ""
                return CommandDone(f"{now} {earlier}".strip())
            case "queue":
                return CommandDone(await self._queue(who.chat))
            case "mode":
                by = who.name if self._asks.is_approver(who) else ""
                done = await mode_command(
                    self._deps, self._options, session_id, session, wanted=rest.lower(), by=by
                )
                return CommandDone(done)
            case "retry":
                return await self._retry(session_id, session, once)
            case _:
                return CommandDone(await self._feature_command(name, session_id, rest, who))

    async def _feature_command(self, name: str, session_id: str, text: str, who: Answerer) -> str:
        feature = next(one for one in FEATURES.values() if name in one.messenger_commands)
        run = feature.part(feature.messenger_commands[name].run)
        return await run(self._deps.supervisor, session_id, text=text, by=who.name)

    async def _at_work(self, session_ids: Sequence[str]) -> list[str]:
        """Return the sessions with an open run. An unreadable session has none."""
        views = {one: await readable_view(self._deps.supervisor, one) for one in session_ids}
        return [one for one, view in views.items() if view is not None and view.session.open_runs]

    async def _queue(self, chat: str) -> str:
        """List queued messages of the chat's conversations."""
        found = [await readable_view(self._deps.supervisor, one) for one in self._state.sessions_in(chat)]
        waiting = [one for view in found if view is not None for one in view.session.inbox.waiting()]
        return _listed(waiting) if waiting else "The queue is empty."

    async def _stop_all(self, who: Answerer) -> str:
        """Stop all runs of this chat, including those of earlier conversations."""
        at_work = await self._at_work(self._state.sessions_in(who.chat))
        if not at_work:
            return "Nothing is running."
        said = [await self._stop(one, await self._deps.inbox.state(one), who) for one in at_work]
        return "\n\n".join(dict.fromkeys(filter(None, said)))

    async def _stop(self, session_id: str, session: Session, who: Answerer) -> str:
        runs = session.open_runs
        current = session.current_run or (runs[0] if runs else None)
        if current is None:
            return ""
        # First, because a stop pauses a non-empty queue, and a chat can't resume it.
        back = await self._take_back(session_id, session, who.chat, but=current.message_id)
        stopped = await self._deps.inbox.stop(session_id, current.run_id, by=who.name)
        # The run's ending already reports the stop.
        after = await self._deps.inbox.state(session_id)
        paused = [one for one in after.inbox.waiting() if after.holds(one)]
        lines = ["" if stopped else "The run had already ended.", _taken_back(back), _paused(paused)]
        return "\n\n".join(filter(None, lines))

    async def _take_back(
        self, session_id: str, session: Session, chat: str, *, but: str
    ) -> list[SessionMessage]:
        """Remove the chat's queued messages and return them."""
        found: list[SessionMessage] = []
        for one in session.inbox.waiting():
            known = self._state.awaited.get(one.message_id)
            if known is None or known.chat != chat or one.message_id == but:
                continue
            removed = e.MessageRemoved(at_ms=self._deps.clock.now_ms(), message_id=one.message_id)
            if await self._deps.inbox.change_message(session_id, removed) is not None:
                found.append(one)
        return found

    async def _retry(self, session_id: str, session: Session, once: OnceFor) -> CommandDone:
        last = _last_run(session)
        if last is None:
            return CommandDone(NOTHING_YET)
        sent = await self._deps.inbox.retry(session_id, last.run_id, once=once)
        match sent:
            case Sent():
                return CommandDone(awaits=sent)
            case Replayed():
                return CommandDone(awaits=msgspec.json.decode(sent.answer, type=Sent))
            case NotSent(why="busy"):
                return CommandDone("The agent is still working. Send /stop first.")
            case NotSent(why="is_command"):
                return CommandDone("That was a shell command. Send it from the page or the terminal.")
            case _:
                return CommandDone(GONE)


def _status(session: Session) -> str:
    current = session.current_run
    waiting = len(session.inbox.queue)
    queued = f" {waiting} queued." if waiting else ""
    if current is None:
        return f"Nothing is running.{queued}"
    doing = "Waiting for you." if current.open_asks else "Working."
    spent = f" {current.usage.output_tokens} tokens so far." if current.usage.output_tokens else ""
    return f"{doing} {current.turns} turns.{spent}{queued}"


def _taken_back(messages: Sequence[SessionMessage]) -> str:
    if not messages:
        return ""
    return f"Removed from the queue. Resend any you still need:\n\n{_listed(messages)}"


def _paused(messages: Sequence[SessionMessage]) -> str:
    """Report queued messages from elsewhere, which the chat doesn't remove."""
    if not messages:
        return ""
    return (
        "Paused messages from elsewhere, such as the page. Resume or remove them "
        f"there:\n\n{_listed(messages)}"
    )


def _listed(waiting: Sequence[SessionMessage]) -> str:
    return "\n".join(f"{at}. {safe_line(one.text, LINE_CHARS_MAX)}" for at, one in enumerate(waiting[:20], 1))


def _last_run(session: Session) -> Run | None:
    return next(reversed(session.runs.values()), None)
