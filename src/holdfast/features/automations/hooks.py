"""Webhook deliveries: verified, stored once, and confirmed when they're on disk.

Callers without the secret learn nothing, not even whether the webhook exists: the work and the response are
the same. A limit of concurrent deliveries per address applies before that, and a rate limit per webhook after
it.

The secrets of webhooks: notes beside the logs, which no log, export or response contains.
"""

import asyncio
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Generator
from contextlib import contextmanager
from os import urandom

from starlette.requests import Request
from starlette.responses import Response

from holdfast.decisions.hook_signatures import (
    HookDelivery,
    HookSignature,
    challenge,
    delivery_key,
    event_of,
    is_signed,
    likely_signature,
    payload_of,
)
from holdfast.features.automations.bodies import HookAccepted
from holdfast.features.automations.events import HookDelivered
from holdfast.features.automations.owner import trigger_state
from holdfast.features.automations.values import OnWebhook
from holdfast.interfaces.ids import is_automation
from holdfast.interfaces.journal import Appended, IdempotencyKey, IfSessionKnown, KeyConflict, Notes, Replayed
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, too_many
from holdfast.server.transport.bodies import json_response, read_sent
from holdfast.server.transport.once import key_conflict


def new_secret(kind: HookSignature) -> str:
    """A secret, in the form that the senders of this kind expect."""
    if kind == "standard":
        return "whsec_" + b64encode(urandom(32)).decode()
    return f"hfhook_{urandom(24).hex()}"


async def put_secret(notes: Notes, trigger_id: str, secret: str) -> None:
    """Store it; it goes when the trigger is purged."""
    await notes.put_note(_key(trigger_id), secret.encode())


async def secret_of(notes: Notes, trigger_id: str) -> str | None:
    """The secret of this hook, if there is one."""
    raw = await notes.note(_key(trigger_id))
    return None if raw is None else raw.decode()


def _key(trigger_id: str) -> str:
    return f"session/{trigger_id}/hook-secret"


HOOKS_COUNTED_MAX = 1_000
MINUTE_MS = 60_000


class HookRoutes:
    """POST /hooks/{trigger_id}."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps
        self._nobodys_secret = urandom(24).hex()
        self._reading: dict[str, int] = {}  # deliveries that are being read, by address
        self._counts: OrderedDict[str, tuple[int, int]] = OrderedDict()  # hook -> minute, deliveries in it

    async def deliver(self, request: Request) -> Response:
        """Take a delivery."""
        deps = self._deps
        trigger_id: str = request.path_params["trigger_id"]
        with self._place(request):
            limits = deps.limits
            body = await read_sent(request, limits, bytes_max=limits.hook_bytes_max, within_s=limits.hook_s)
            delivery = HookDelivery({name.lower(): value for name, value in request.headers.items()}, body)
            kind = await self._signed_as(trigger_id, delivery)
        self._count(trigger_id)
        if (answer := challenge(delivery, kind)) is not None:
            return json_response(answer)
        return await self._store(trigger_id, delivery, kind)

    async def _signed_as(self, trigger_id: str, delivery: HookDelivery) -> HookSignature:
        """How the delivery is signed; raises a Problem if it isn't."""
        store = self._deps.store
        wanted, secret = None, None
        if is_automation(trigger_id):
            settings = (await trigger_state(store, trigger_id)).settings
            row = await store.session(trigger_id)
            if settings is not None and row is not None and not row.purge_at_ms:
                wanted = settings.when.signature if isinstance(settings.when, OnWebhook) else None
            secret = await secret_of(store, trigger_id)
        kind = wanted or likely_signature(delivery)
        key = secret if wanted and secret else self._nobodys_secret
        is_right = await asyncio.to_thread(
            is_signed, delivery, kind, secret=key, now_ms=self._deps.clock.now_ms()
        )
        if not is_right or wanted is None or not secret:
            raise Problem(401, "The signature is missing or wrong", code="bad_signature")
        return kind

    async def _store(self, trigger_id: str, delivery: HookDelivery, kind: HookSignature) -> Response:
        deps, now_ms = self._deps, self._deps.clock.now_ms()
        key = await asyncio.to_thread(delivery_key, delivery, kind, now_ms=now_ms)
        said = await asyncio.to_thread(payload_of, delivery)
        redacted = await asyncio.to_thread(deps.redactor.redact_bytes, said)
        blob = await deps.store.put_blob(redacted)
        arrived = HookDelivered(
            at_ms=now_ms,
            delivery_id=key.delivery_id,
            blob=blob,
            bytes=len(delivery.body),
            event=deps.redactor.redact_text(event_of(delivery, kind)),
        )
        once = IdempotencyKey(
            f"\nhook/{trigger_id}/{key.once}", key.digest, key.delivery_id.encode(), key.expires_at_ms
        )
        result = await deps.store.append(trigger_id, [arrived], when=[IfSessionKnown()], idempotency_key=once)
        match result:
            case Appended():
                return json_response(HookAccepted(id=key.delivery_id, accepted=True), 202)
            case Replayed():
                answer = HookAccepted(id=result.answer.decode(), accepted=True, repeated=True)
                return json_response(answer, 202)
            case KeyConflict():
                raise key_conflict()
            case _:  # it was deleted meanwhile
                raise Problem(401, "The signature is missing or wrong", code="bad_signature")

    @contextmanager
    def _place(self, request: Request) -> Generator[None]:
        """Count the concurrent deliveries of one address; raises a Problem over the limit."""
        client = request.client
        address = client.host if client is not None else ""
        if self._reading.get(address, 0) >= self._deps.limits.hooks_at_once:
            raise Problem(
                503, "Too many deliveries at once. Try again", code="too_busy", headers={"Retry-After": "2"}
            )
        self._reading[address] = self._reading.get(address, 0) + 1
        try:
            yield
        finally:
            self._reading[address] -= 1
            if not self._reading[address]:
                del self._reading[address]

    def _count(self, trigger_id: str) -> None:
        """Count a signed delivery; raises a Problem if there were too many in this minute."""
        minute = self._deps.clock.now_ms() // MINUTE_MS
        known, count = self._counts.pop(trigger_id, (minute, 0))
        count = count + 1 if known == minute else 1
        self._counts[trigger_id] = minute, count
        while len(self._counts) > HOOKS_COUNTED_MAX:
            self._counts.popitem(last=False)
        if count > self._deps.limits.hook_per_minute:
            text = f"The limit of this webhook is {self._deps.limits.hook_per_minute} deliveries per minute"
            raise too_many(text, code="too_many_deliveries", retry_after_s=60)
