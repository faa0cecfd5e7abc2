"""Responds to clicks and commands within Discord's limit of three seconds.

A click gets its response once it's logged. If that takes too long, it's only acknowledged: the decision
appears on the card, which a delivery updates.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from holdfast.features.channels.approvals import DONE
from holdfast.features.channels.discord.api import ApiRequest, DiscordApi, DiscordResult
from holdfast.features.channels.discord.markdown import escaped
from holdfast.features.channels.discord.updates import COMMAND, Interaction
from holdfast.interfaces.clock import Clock

WITHIN_S = 1.5  # then Discord hears that we have it
ANSWER_S = 10.0
OPEN_MAX = 1_000
MESSAGE, LATER_MESSAGE, LATER_UPDATE = 4, 5, 6
EPHEMERAL = 1 << 6
TEXT_CHARS_MAX = 500


class Clicks:
    """The interactions that wait for an answer. Answers are best effort: what counts is on the log."""

    def __init__(self, api: DiscordApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._open: dict[str, asyncio.Task[bool]] = {}  # click -> tells Discord that we have it
        self._sending: set[str] = set()
        self._tasks: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Answer until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            await asyncio.get_running_loop().create_future()

    def came(self, interaction: Interaction) -> None:
        """Register a click, which is acknowledged unless it gets a response soon."""
        assert self._tasks is not None, "it runs"
        if interaction.click in self._open or len(self._open) >= OPEN_MAX:
            return
        is_command = interaction.kind == COMMAND
        deferring = self._defer(interaction.click, is_command=is_command)
        self._open[interaction.click] = self._tasks.create_task(deferring)

    async def answer(self, click: str, text: str) -> None:
        """Answer a click; what went as its person wanted needs no words, for its card says it."""
        has_words = text not in DONE
        if await self._was_deferred(click):
            if has_words:
                await self._follow_up(click, text)
        elif has_words:
            await self._callback(click, MESSAGE, _whisper(text))
        else:
            await self._callback(click, LATER_UPDATE)

    async def taken(self, interaction: Interaction) -> None:
        """It is on the log. Of a command nothing stays but what the agent says about it."""
        click = interaction.click
        is_open = click in self._open
        was_deferred = await self._was_deferred(click)
        if interaction.kind == COMMAND and was_deferred:
            path = f"/webhooks/{self._api.bot_id}/{click.partition('/')[2]}/messages/@original"
            await self._api.call(ApiRequest("DELETE", path, "DELETE answer"), answer_s=ANSWER_S)
        elif interaction.kind != COMMAND and is_open and not was_deferred:
            await self._callback(click, LATER_UPDATE)  # it is a repeat of one that was accepted before

    async def _defer(self, click: str, *, is_command: bool) -> bool:
        if not is_command:
            await self._clock.sleep_s(WITHIN_S)
        self._sending.add(click)
        try:
            if is_command:
                return await self._callback(click, LATER_MESSAGE, {"flags": EPHEMERAL})
            return await self._callback(click, LATER_UPDATE)
        finally:
            self._sending.discard(click)

    async def _was_deferred(self, click: str) -> bool:
        """Return whether the click was acknowledged; if not, it no longer will be."""
        deferring = self._open.pop(click, None)
        if deferring is None:
            return False
        if not deferring.done() and click not in self._sending:
            deferring.cancel()
        await asyncio.wait({deferring})
        return not deferring.cancelled() and deferring.result()

    async def _callback(self, click: str, kind: int, data: Mapping[str, Any] | None = None) -> bool:
        body = {"type": kind, **({"data": data} if data else {})}
        request = ApiRequest("POST", f"/interactions/{click}/callback", "POST callback", click)
        reply = await self._api.call(request, body, answer_s=ANSWER_S)
        return isinstance(reply, DiscordResult)

    async def _follow_up(self, click: str, text: str) -> None:
        path = f"/webhooks/{self._api.bot_id}/{click.partition('/')[2]}"
        await self._api.call(ApiRequest("POST", path, "POST answer"), _whisper(text), answer_s=ANSWER_S)


def _whisper(text: str) -> dict[str, Any]:
    """Words for one person alone."""
    return {"content": escaped(text)[:TEXT_CHARS_MAX], "flags": EPHEMERAL, "allowed_mentions": {"parse": []}}
