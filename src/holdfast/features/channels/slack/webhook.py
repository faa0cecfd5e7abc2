"""Slack's Events API over HTTP: Slack calls, and is answered after what it tells is on the log.

The route has checked the signature. Slack repeats an event at once, after one minute and after five, and then
forgets it; buttons and slash commands come once. So whenever something may have been missed, the history is
read: at the start, after Slack couldn't be reached, and after its calls came late or couldn't arrive.
"""

import asyncio
import json
from typing import Any, cast
from urllib.parse import parse_qsl

import msgspec
from msgspec import Struct

from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.http.webhook_endpoints import BadUpdate, NotNow, WebhookEndpoints
from holdfast.features.channels.incoming import Arrival, writable
from holdfast.features.channels.owner import Accept
from holdfast.features.channels.slack.api import SlackApi
from holdfast.features.channels.slack.connecting import (
    BACKOFF_FIRST_S,
    SlackConnection,
    SlackTrouble,
    pause_s,
)
from holdfast.features.channels.slack.events import read_envelope
from holdfast.features.channels.slack.intake import SlackIntake
from holdfast.features.channels.slack.self_test import why_unreachable
from holdfast.interfaces.clock import Clock

LOOK_S = 30.0
LATE_S = 45.0  # an event that is older came before, and didn't get through
AGAIN_S = 60.0  # after late events, the history isn't read more often than that
FAILURES_MAX = 3  # self-tests before a failure is reported, because the server may not be listening yet
SAME_S = 2.5  # how long a repeat waits for the one that is being taken; Slack waits for 3 s
FIELDS_MAX = 100
CANT_CALL = "Slack can't deliver to {url}: {why}"
HINT = "Check that the URL is public, has a valid certificate and points to this server."


class HookAddress(Struct, frozen=True):
    """Where Slack calls us, and the secret that it signs with."""

    url: str
    secret: str


class SlackChallenge(msgspec.Struct, frozen=True):
    """The response to Slack's URL verification."""

    challenge: str


class SlackWebhook:
    """Takes Slack's calls until cancelled; whether Slack and our address work is asked again and again."""

    def __init__(
        self, api: SlackApi, log: ChannelLog, clock: Clock, *, address: HookAddress, accept: Accept
    ) -> None:
        self._clock = clock
        self._address = address
        self._connection = SlackConnection(api, log, clock)
        self._intake = SlackIntake(api, log, clock, connection=self._connection, accept=accept)
        self._taking: dict[str, asyncio.Future[bool]] = {}  # by the key of what is being accepted
        self._has_gap = True  # events before the start are unknown
        self._began_s: float | None = None
        self._has_heard = False  # something of Slack's arrived
        self._has_reached = False  # a call to ourselves arrived
        self._unreached = 0  # how many in a row didn't
        self._catching_up: asyncio.Task[None] | None = None

    async def run(self, endpoints: WebhookEndpoints, name: str) -> None:
        """Open the door of the channel, and look after it."""
        failures = 0
        async with asyncio.TaskGroup() as tasks:
            with endpoints.opened(name, self.deliver):
                while True:
                    try:
                        await self._connection.introduce()
                    except SlackTrouble as trouble:
                        failures += 1
                        self._has_gap = True
                        await self._connection.failed(trouble)
                        await self._clock.sleep_s(pause_s(failures))
                        continue
                    failures = 0
                    if (
                        self._has_gap
                    ):  # before anything is accepted, so that nothing passes what came before it
                        self._begin(tasks)
                    wait_s = await self._look()
                    await self._clock.sleep_s(wait_s)

    async def deliver(self, body: bytes) -> SlackChallenge | None:
        """Accept what Slack tells; when this returns, Slack may forget it."""
        kind, payload = _read(body)
        if kind == "url_verification":
            return SlackChallenge(writable(str(payload.get("challenge", ""))[:1_000]))
        self._has_heard = True
        if not self._connection.us.bot:
            raise NotNow  # who is mentioned isn't known yet
        self._notice_gap(kind, payload)
        arrival = read_envelope(kind, payload, us=self._connection.us)
        if arrival is None:
            return None
        if arrival.key in self._taking:
            await self._until_taken(arrival.key)
        else:
            await self._accept(arrival)
        return None

    async def _accept(self, arrival: Arrival) -> None:
        is_taken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._taking[arrival.key] = is_taken
        try:
            await self._intake.accept(arrival)
            is_taken.set_result(True)
        finally:
            del self._taking[arrival.key]
            if not is_taken.done():
                is_taken.set_result(False)

    async def _until_taken(self, key: str) -> None:
        """Wait for the one that came first; raises NotNow if it takes longer than Slack waits, or fails."""
        is_taken = self._taking[key]
        await asyncio.wait({is_taken}, timeout=SAME_S)
        if not is_taken.done() or not is_taken.result():
            raise NotNow

    def _begin(self, tasks: asyncio.TaskGroup) -> None:
        self._has_gap, self._began_s = False, self._clock.steady_s()
        self._intake.begin()
        if self._catching_up is None or self._catching_up.done():
            self._catching_up = tasks.create_task(self._intake.catch_up(), name="catch up with Slack")

    def _notice_gap(self, kind: str, payload: dict[str, Any]) -> None:
        """Look at the history if Slack says, or shows by a repeat, that events didn't get through."""
        now_s, at_s = self._clock.steady_s(), payload.get("event_time")
        is_late = isinstance(at_s, int) and self._clock.now_ms() / 1000 - at_s > LATE_S
        if self._has_gap or not (is_late or kind == "app_rate_limited"):
            return
        if self._began_s is not None and now_s - self._began_s >= AGAIN_S:
            self._has_gap = True  # the rest is read at the next look
            self._intake.begin()

    async def _look(self) -> float:
        """Say whether calls can arrive, as far as we know; how long to wait before the next look.

        If Slack's calls arrive and ours never did, our network doesn't let us call ourselves.
        """
        now_s = self._clock.now_ms() // 1000
        why = await why_unreachable(self._address.url, secret=self._address.secret, now_s=now_s)
        if not why:
            self._has_gap = self._has_gap or (self._has_reached and self._unreached > 0)
            self._has_reached, self._unreached = True, 0
            await self._connection.works()
            return 0.0 if self._has_gap else LOOK_S
        self._unreached += 1
        if self._has_heard and not self._has_reached:
            await self._connection.works()
            return LOOK_S
        if self._unreached >= FAILURES_MAX:
            text = CANT_CALL.format(url=self._address.url, why=why)
            await self._connection.failed(SlackTrouble(text, HINT))
        return min(BACKOFF_FIRST_S * 2 ** min(self._unreached - 1, 6), LOOK_S)


def _read(body: bytes) -> tuple[str, dict[str, Any]]:
    """Return the envelope type of a body; raises BadUpdate."""
    if body.lstrip()[:1] == b"{":
        told = _object(body)
        kind = str(told.get("type", ""))
        return ("events_api" if kind == "event_callback" else kind), told
    try:
        fields = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX))
    except ValueError as error:
        raise BadUpdate("The body is neither JSON nor a form") from error
    if "payload" in fields:
        return "interactive", _object(fields["payload"].encode("utf-8", "replace"))
    if "command" in fields:
        return "slash_commands", dict(fields)
    if "ssl_check" in fields:
        return "ssl_check", {}
    raise BadUpdate("The body is neither JSON nor a Slack form")


def _object(text: bytes) -> dict[str, Any]:
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadUpdate("The body isn't JSON") from error
    if not isinstance(found, dict):
        raise BadUpdate("The body isn't a JSON object")
    return cast("dict[str, Any]", found)
