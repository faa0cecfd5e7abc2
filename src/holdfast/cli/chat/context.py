"""`/context` in the chat: what the model sees, what to pin, and what to revert."""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from holdfast import events as e
from holdfast.api.sessions import ContextMessage, ContextShown, ShortenedShown
from holdfast.client.errors import ClientError
from holdfast.safe_text import safe, safe_line

if TYPE_CHECKING:
    from holdfast.cli.chat.conversation import ChatScreen

USAGE = "/context pin N or last, /context unpin N, /context show N, /context revert N"
LATER = " It's summarized now, so the model sees it word for word after the next summary."
TEXT_CHARS = 60
_CHANGING = (
    e.RunStarted,
    e.RunEnded,
    e.ContextCompacted,
    e.ContextTrimmed,
    e.ContextReverted,
    e.SessionRewound,
)
_One = TypeVar("_One", ContextMessage, ShortenedShown)


class ChatContext:
    """The context of the open session: its share of the window is always shown."""

    def __init__(self, chat: "ChatScreen") -> None:
        self._chat = chat
        self._now: ContextShown | None = None
        self._listed: ContextShown | None = None  # the last one on the screen, whose numbers count
        self._is_answer = False  # whether the newest call is part of the conversation
        self._used = 0

    @property
    def percent(self) -> str:
        """Return the share of the window that's used; empty if it's unknown."""
        if self._now is None or not self._used:
            return ""
        return f"{round(100 * self._used / self._now.window_tokens)}%"

    def opened(self) -> None:
        """Show the context of the session that was opened."""
        self.closed()
        self._chat.begin(self.refresh())

    def closed(self) -> None:
        """Show nothing until a session is opened."""
        self._now = self._listed = None
        self._used = 0

    async def hear(self, event: e.Event) -> None:
        """Follow the session's log."""
        if isinstance(event, e.CallStarted):
            self._is_answer = event.purpose == "answer"
        elif isinstance(event, e.Usage) and self._is_answer and not event.estimated:
            self._used = event.input_tokens + event.output_tokens
        elif isinstance(event, _CHANGING):
            self._chat.begin(self.refresh())

    async def refresh(self) -> None:
        """Read the context again; an older server doesn't show it."""
        with suppress(ClientError):
            if await self._read():
                await self._chat.prompt.print("")

    async def _read(self) -> ContextShown | None:
        chat, session_id = self._chat, self._chat.session_id
        if not session_id:
            return None
        found = await chat.client.context(session_id, model=chat.model)
        return self._take(found) if chat.session_id == session_id else None

    def _take(self, found: ContextShown) -> ContextShown:
        self._now, self._used = found, found.used_tokens if found.last_seq else 0
        return found

    async def lines(self) -> list[str]:
        """Return the context in a few lines; none without a session."""
        now = await self._read()
        return _sizes(now) if now is not None else []

    async def command(self, words: str) -> None:
        """Do /context: show it, or change it."""
        verb, *which = words.split() or ("",)
        if not self._chat.session_id:
            await self._say("The model has seen nothing yet.")
            return
        if self._listed is None or not verb:
            listed = await self._read()
            if listed is None:
                return
            self._listed = listed
        if not verb:
            await self._say("\n".join(_all_lines(self._listed)))
        elif len(which) != 1 or not await self._change(self._listed, verb, which[0]):
            await self._say(f"{USAGE} (the numbers in /context)")

    async def _change(self, listed: ContextShown, verb: str, which: str) -> bool:
        """Make the change; False if it names nothing that was listed."""
        client, session_id = self._chat.client, self._chat.session_id
        if verb == "pin" and which == "last":
            newest = await self._read()
            found = newest.messages[-1] if newest is not None and newest.messages else None
        else:
            found = _chosen(listed.pins if verb == "unpin" else listed.messages, which)
        if verb == "pin" and found is not None:
            now = self._take(await client.pin(session_id, found.id))
            later = "" if found.sent else LATER
            await self._say(f"Pinned “{_text(found)}”. {_pinned(now)}.{later}")
        elif verb == "unpin" and found is not None:
            now = self._take(await client.unpin(session_id, found.id))
            await self._say(f"Unpinned “{_text(found)}”. {_pinned(now)}.")
        elif verb == "show" and (one := _chosen(listed.shortened, which)) is not None:
            await self._say(safe(one.summary) if one.summary else "\n".join(_results(one)))
        elif verb == "revert" and (one := _chosen(listed.shortened, which)) is not None:
            self._take(await client.revert(session_id, one.seq, model=self._chat.model))
            await self._say(f"Reverted. The context is now {self.percent} of the window.")
        else:
            return False
        return True

    async def _say(self, text: str) -> None:
        await self._chat.prompt.print(self._chat.style.dim(text))


def _chosen(listed: Sequence[_One], number: str) -> _One | None:
    nth = int(number) if number.isascii() and number.isdecimal() else 0
    return listed[nth - 1] if 0 < nth <= len(listed) else None


def _all_lines(now: ContextShown) -> list[str]:
    lines = _sizes(now)
    if now.messages:
        lines += ["", "newest messages (/context pin N)"]
        lines += [f"{nth:>4}  {_message(one)}" for nth, one in enumerate(now.messages, 1)]
    if now.pins:
        lines += ["", f"{_pinned(now)} (/context unpin N)"]
        lines += [f"{nth:>4}  {_message(one)}" for nth, one in enumerate(now.pins, 1)]
    if now.shortened:
        lines += ["", "summarized or removed (/context show N, /context revert N)"]
        lines += [f"{nth:>4}  {_shortened(one)}" for nth, one in enumerate(now.shortened, 1)]
    return lines


def _sizes(now: ContextShown) -> list[str]:
    about = "about " if now.estimated else ""
    call, broken = now.last_call, now.cache_break
    tools = "1 tool" if len(now.tools) == 1 else f"{len(now.tools)} tools"
    parts = f"about {now.system_tokens:,} system text, {now.tools_tokens:,} for {tools}"
    lines = [
        f"context    {now.used_percent}%: {about}{now.used_tokens:,} of {now.window_tokens:,} tokens",
        f"parts      {parts}, {now.messages_tokens:,} conversation",
    ]
    if call is not None:
        lines.append(
            f"last call  {call.new_tokens:,} new + {call.cached_tokens:,} cached tokens in, "
            f"{call.output_tokens:,} out"
        )
    if broken is not None:
        lines.append(f"cache      broken at {_time(broken.at)} by: {safe_line(broken.reason, 40)}")
    return lines


def _message(one: ContextMessage) -> str:
    state = " · pinned" if one.pinned else "" if one.sent else " · summarized"
    return f"{'you' if one.author == 'person' else 'model':<6}{_text(one)} · {one.tokens:,} tokens{state}"


def _text(one: ContextMessage) -> str:
    return safe_line(one.text, TEXT_CHARS) or "(attachments)"


def _pinned(now: ContextShown) -> str:
    return f"{now.pins_tokens:,} of {now.pins_tokens_max:,} tokens pinned"


def _shortened(one: ShortenedShown) -> str:
    what = (
        f"{len(one.results)} tool results" if one.kind == "trimming" else safe_line(one.summary, TEXT_CHARS)
    )
    cost = f" · {one.cost_usd:.4f} USD" if one.cost_usd else ""
    by = f" · call {safe_line(one.call_id, 40)}" if one.call_id else ""
    state = " · reverted" if one.reverted else ""
    saved = f"{one.tokens_before:,} → {one.tokens_after:,} tokens"
    return f"{_time(one.at)}  {saved}{cost}{by}{state}\n      {what}"


def _results(one: ShortenedShown) -> list[str]:
    return [
        f"{safe_line(result.name, 40)} · {result.chars:,} characters · seq {result.seq}"
        for result in one.results
    ]


def _time(at_s: float) -> str:
    return time.strftime("%H:%M", time.localtime(at_s))
