"""Calls to the app over HTTP: signed, answered within 3 seconds or repeated, and lost as by Slack."""

import asyncio
import hmac
import json
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from secrets import token_hex
from typing import Any
from urllib.parse import urlencode

import aiohttp
from msgspec import Struct, field

from fakes.exchanges import Exchange, Scripts
from fakes.slack.sockets import ACK_S, LATE_S, WAITING_MAX, Envelope
from holdfast.chaos.gates import Gate, Notifier

REPEATS_S: Sequence[float] = (0.0, 60.0, 300.0)  # before an event is told again; then it is lost
OLD_S = 600
AGENT = "Slackbot 1.0 (+https://api.slack.com/robots)"


class SlackHook(Struct):
    """Calls the app at `url`, many at once; while that is empty, sockets are used."""

    scripts: Scripts
    changed: Notifier
    secret: str
    answer_s: float = ACK_S
    repeats_s: Sequence[float] = REPEATS_S
    url: str = ""
    waiting: dict[str, Envelope] = field(default_factory=dict[str, Envelope])
    lost: list[Envelope] = field(default_factory=list[Envelope])
    acknowledged: list[Envelope] = field(default_factory=list[Envelope])
    answers: list[tuple[int, bytes]] = field(
        default_factory=list[tuple[int, bytes]]
    )  # status and body of each
    _number: int = 0
    _tasks: "set[asyncio.Task[None]]" = field(default_factory=set["asyncio.Task[None]"])
    _next: Gate | None = None  # one waits until the next is told

    def tell(self, kind: str, payload: dict[str, Any]) -> None:
        """Tell the app of something, in a task of its own."""
        self._number += 1
        envelope = Envelope(f"call-{self._number}", kind, payload)
        for kept in (self.acknowledged, self.answers):
            del kept[: max(0, len(kept) - WAITING_MAX)]
        self.waiting[envelope.envelope_id] = envelope
        task = asyncio.create_task(self._deliver(envelope), name=f"tell {envelope.envelope_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def verify(self, url: str) -> str:
        """Use this address if it answers the challenge; else say why not. An empty one needs no answer."""
        if url:
            wanted = token_hex(16)
            body = json.dumps({"token": "deprecated", "challenge": wanted, "type": "url_verification"})
            status, answer = await self._post(url, body.encode(), self._headers(body.encode(), "json"))
            if status != 200 or wanted.encode() not in answer:  # what HTTP calls success
                return f"HTTP {status}" if status else answer.decode()
        self.url = url
        self.changed.notify()
        return ""

    async def close(self) -> None:
        """Call nobody any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _deliver(self, envelope: Envelope) -> None:
        """Tell it until it is answered, and what is no event only once."""
        is_event = envelope.kind == "events_api"
        for pause_s in (0.0, *(self.repeats_s if is_event else ())):
            if envelope.told:
                await asyncio.sleep(pause_s)
            why = await self._attempt(envelope, envelope.reason)
            envelope.told += 1
            if not why:
                self._settle(envelope, self.acknowledged)
                return
            if why == "lost":
                break
            envelope.reason = why
            self.changed.notify()
        self._settle(envelope, self.lost)

    def _settle(self, envelope: Envelope, where: list[Envelope]) -> None:
        del self.waiting[envelope.envelope_id]
        where.append(envelope)
        self.changed.notify()

    async def _attempt(self, envelope: Envelope, before: str) -> str:
        """Tell it once; Slack's word for why it wasn't answered, empty if it was."""
        exchange = Exchange(accept=_nothing)
        for step in self.scripts.next("event", envelope.kind):
            await step.perform(exchange)
        if exchange.is_lost:
            return "lost"
        await self._in_order(exchange)
        if exchange.reset:
            return "connection_failed"
        body, form = _body(envelope)
        headers = self._headers(body, form, exchange)
        if envelope.told:
            headers |= {"X-Slack-Retry-Num": str(envelope.told), "X-Slack-Retry-Reason": before}
        times = 2 if exchange.order == "doubled" else 1
        answers = await asyncio.gather(*(self._post(self.url, body, headers) for _ in range(times)))
        self.answers += answers
        if exchange.ignores_acknowledgement:
            return "http_timeout"
        status, text = answers[0]
        if status == 200:  # what HTTP calls success
            return ""
        return "http_error" if status else text.decode()

    async def _in_order(self, exchange: Exchange) -> None:
        """Wait for the next one, if this is to come after it; but not for long."""
        if exchange.order == "reversed" and self._next is None:
            gate = self._next = Gate()
            try:
                async with asyncio.timeout(LATE_S):
                    await gate.passed()
            except TimeoutError:
                self._next = None
        elif self._next is not None:
            gate, self._next = self._next, None
            asyncio.get_running_loop().call_later(0.05, gate.open)

    async def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """The status and the body of the answer; 0 and Slack's word if there is none."""
        timeout = aiohttp.ClientTimeout(total=self.answer_s)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.post(url, data=body, headers=headers, allow_redirects=False) as response,
            ):
                return response.status, await response.read()
        except TimeoutError:
            return 0, b"http_timeout"
        except (aiohttp.ClientError, OSError):
            return 0, b"connection_failed"

    def _headers(self, body: bytes, form: str, exchange: Exchange | None = None) -> dict[str, str]:
        how = exchange.signature if exchange is not None else "right"
        at = str(int(time.time()) - (OLD_S if how == "old" else 0))
        secret = "of someone else" if how == "wrong" else self.secret
        signed = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, sha256).hexdigest()
        return {
            "Content-Type": "application/x-www-form-urlencoded" if form == "form" else "application/json",
            "User-Agent": AGENT,
            "X-Slack-Request-Timestamp": at,
            "X-Slack-Signature": f"v0={signed}",
        }


def _body(envelope: Envelope) -> tuple[bytes, str]:
    """The body, and whether it is JSON or a form: presses of buttons are JSON in a field of a form."""
    match envelope.kind:
        case "interactive":
            return urlencode({"payload": json.dumps(envelope.payload)}).encode(), "form"
        case "slash_commands":
            return urlencode(envelope.payload).encode(), "form"
        case _:
            return json.dumps(envelope.payload).encode(), "json"


async def _nothing() -> dict[str, object]:
    return {}
