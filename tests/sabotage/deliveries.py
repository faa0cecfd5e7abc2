"""Wrong parts of what takes the calls of chat platforms: whom they believe, and when they answer."""

import asyncio
from typing import Any

import msgspec
from starlette.types import Message
from typing_extensions import override

from fakes.slack import FakeSlack
from fakes.slack.world import APP, TEAM
from holdfast import events as e
from holdfast.chaos import Gate
from holdfast.decisions.hook_signatures import HookDelivery, HookSignature, is_signed, slack_signature
from holdfast.features.channels.channel_log import ChannelLog
from holdfast.features.channels.deps import ConfiguredChannel
from holdfast.features.channels.http.proofs import DeliveryProofs
from holdfast.features.channels.http.webhook_endpoints import NotNow, WebhookEndpoints
from holdfast.features.channels.incoming import Arrival
from holdfast.features.channels.slack.api import open_slack
from holdfast.features.channels.slack.webhook import HookAddress, SlackWebhook
from holdfast.features.postgres.peers.admission import PeerAdmission
from holdfast.features.postgres.peers.signatures import HEADER, PeerSignatures, Question
from holdfast.interfaces.system_clock import SystemClock
from holdfast.server.access.auth import KeyRing
from holdfast.server.access.keys import AddedKeys
from holdfast.server.options import ApiKey
from holdfast.server.problems import Problem
from holdfast.values import CHANNEL
from sabotage import Sabotage
from stores import MemoryStore


class AdmitsWithoutAKey(PeerAdmission):
    """Takes a signature without a key for one that may do anything."""

    @override
    def _is_known(self, path: str, key: str) -> bool:
        return not key or super()._is_known(path, key)


async def check_a_seal_without_a_key_opens_nothing_but_deliveries(kind: type[PeerAdmission]) -> None:
    """Whoever calls a hook has no key, and another server's signature gives them none."""
    clock = SystemClock()
    here, there = PeerSignatures(clock, "a"), PeerSignatures(clock, "b")
    here.key = there.key = b"of the cluster"
    keys = KeyRing((ApiKey("team", "s3cret-of-the-team"),), AddedKeys(MemoryStore(), clock))
    admission = kind(here, keys)

    async def no_body() -> Message:
        return {"type": "http.request", "body": b""}

    async def admit(path: str) -> str:
        signature = there.sign(Question("a", "POST", path), key_name="")
        headers = [(HEADER, signature.encode())]
        scope: dict[str, Any] = {"method": "POST", "path": path, "query_string": b"", "headers": headers}
        admitted = await admission.admit(scope, no_body, bytes_max=0)
        assert admitted is not None
        return admitted[0]

    assert await admit("/hooks/channels/tg") == ""
    for path in ("/v1/runs", "/hooks/trg_1", "/api/sessions/s/live"):
        opened = ""
        try:
            opened = await admit(path) or path
        except Problem as problem:
            assert problem.code == "peer_key_unknown"  # noqa: PT017  # it is refused for this, and no other reason
        assert not opened


SIGNED = ConfiguredChannel("slack", signing_secret="of Slack")  # noqa: S106  # nothing real is behind it


class BelievesAnySignature(DeliveryProofs):
    """Looks only whether there is a signature."""

    @override
    def _is_signed(self, delivery: HookDelivery, kind: HookSignature, secret: str) -> bool:
        return "x-slack-signature" in delivery.headers


class ForgetsTheTime(DeliveryProofs):
    """Believes a signature however old it is."""

    @override
    def _is_signed(self, delivery: HookDelivery, kind: HookSignature, secret: str) -> bool:
        at_ms = 1000 * int(delivery.headers["x-slack-request-timestamp"])
        return is_signed(delivery, kind, secret=secret, now_ms=at_ms)


async def _is_believed(proofs: DeliveryProofs, *, secret: str, age_s: int = 0) -> bool:
    at, body = str(SystemClock().now_ms() // 1000 - age_s), b"{}"
    headers = {"x-slack-request-timestamp": at, "x-slack-signature": slack_signature(secret, at, body)}
    try:
        await proofs.insist_on_signature("sl", headers, body)
    except Problem:
        return False
    return True


async def check_a_call_with_another_signature_is_refused(kind: type[DeliveryProofs]) -> None:
    """Whoever doesn't know the secret can't speak for Slack."""
    proofs = kind({"sl": SIGNED}, SystemClock())
    assert await _is_believed(proofs, secret=SIGNED.signing_secret)
    assert not await _is_believed(proofs, secret="of someone else")  # noqa: S106  # the same


async def check_a_recorded_call_is_refused(kind: type[DeliveryProofs]) -> None:
    """Whoever has seen a call can't make it again later."""
    proofs = kind({"sl": SIGNED}, SystemClock())
    assert await _is_believed(proofs, secret=SIGNED.signing_secret, age_s=60)
    assert not await _is_believed(proofs, secret=SIGNED.signing_secret, age_s=600)


class AnswersFirst(SlackWebhook):
    """Tells Slack that it has the event, and then takes it."""

    @override
    async def _accept(self, arrival: Arrival) -> None:
        self.taking = asyncio.create_task(super()._accept(arrival))


async def check_slack_is_answered_after_the_event_is_on_the_log(kind: type[SlackWebhook]) -> None:
    """While an event is being taken, Slack waits."""
    gate, endpoints = Gate(), WebhookEndpoints()
    event = {"type": "message", "channel": "D42", "user": "U42", "text": "hi", "ts": "1.1"}
    body = msgspec.json.encode({"type": "event_callback", "team_id": TEAM, "api_app_id": APP, "event": event})

    async def take(_: Arrival) -> None:
        await gate.passed()

    store = MemoryStore()
    await store.append("chn_sl", [e.SessionCreated(at_ms=1, epoch="e", source=CHANNEL, title="sl")])
    async with (
        FakeSlack() as slack,
        open_slack(token=slack.token, app_token="", base_url=slack.api_url) as api,
    ):
        log = ChannelLog(store, "chn_sl", await store.claim("chn_sl"))
        address = HookAddress("http://127.0.0.1:9/hooks/channels/sl", slack.signing_secret)
        hook = kind(api, log, SystemClock(), address=address, accept=take)
        running = asyncio.create_task(hook.run(endpoints, "sl"))
        await slack.world.changed.until(lambda: bool(slack.world.done("auth.test")))
        delivering = asyncio.create_task(_delivered(hook, body))
        await gate.reached()
        await asyncio.sleep(0)
        is_answered = delivering.done()
        gate.open()
        await delivering
        running.cancel()
        await asyncio.wait([running])
        assert not is_answered


async def _delivered(hook: SlackWebhook, body: bytes) -> None:
    """Call until it is taken: at first, it isn't known yet who the bot is."""
    while True:
        try:
            await hook.deliver(body)
        except NotNow:
            await asyncio.sleep(0)
        else:
            return


SABOTAGES = (
    Sabotage("P11", check_a_call_with_another_signature_is_refused, DeliveryProofs, BelievesAnySignature),
    Sabotage("P11", check_a_recorded_call_is_refused, DeliveryProofs, ForgetsTheTime),
    Sabotage("P2", check_slack_is_answered_after_the_event_is_on_the_log, SlackWebhook, AnswersFirst),
    Sabotage(
        "P11", check_a_seal_without_a_key_opens_nothing_but_deliveries, PeerAdmission, AdmitsWithoutAKey
    ),
)
