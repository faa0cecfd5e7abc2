"""Results that are posted to other programs: the same outbox, and no address inside."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import pytest
from aiohttp import web
from msgspec.structs import replace
from yarl import URL

from agent.world import World, process
from features.channels.lab import deps_of
from holdfast import events as e
from holdfast.chaos import ChaosServer, Say, bad_key
from holdfast.features.channels.configured import Channels
from holdfast.features.channels.events import (
    ChannelResultRequested,
)
from holdfast.features.channels.webhooks import WebhookBody
from holdfast.interfaces.ids import WEBHOOKS_LOG
from holdfast.policy.public_addresses import IPAddress
from holdfast.racing import wait_through_cancel
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.server.image_fetcher import HttpsOnly
from holdfast.tools.web.addresses import AddressPolicy
from holdfast.values import CHANNEL
from runner.steered_clock import SteeredClock, settle


class OnLoopback(AddressPolicy):
    """What the tests post to."""

    def insist_on_url(self, url: URL) -> None:
        assert url.host == "127.0.0.1"

    def allows(self, address: IPAddress) -> bool:
        return address.is_loopback


@dataclass(slots=True)
class Receiver:
    """Another program, which answers with these statuses in turn and then takes everything; 0 is a cut."""

    statuses: list[int]
    url: str = ""
    got: list[tuple[dict[str, str], WebhookBody]] = field(
        default_factory=list[tuple[dict[str, str], WebhookBody]]
    )
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def accept(self, request: web.Request) -> web.Response:
        body = msgspec.json.decode(await request.read(), type=WebhookBody)
        self.got.append((dict(request.headers), body))
        status = self.statuses.pop(0) if self.statuses else 204
        if not status and request.transport is not None:
            request.transport.abort()
        self.done.set() if not self.statuses and status in {204, 400} else None
        return web.Response(status=status or 200, headers={"Retry-After": "0"})


@asynccontextmanager
async def receiver(*statuses: int) -> AsyncGenerator[Receiver]:
    one, app = Receiver(list(statuses)), web.Application()
    app.router.add_post("/hook", one.accept)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    one.url = f"http://127.0.0.1:{runner.addresses[0][1]}/hook"
    try:
        yield one
    finally:
        await runner.cleanup()


@asynccontextmanager
async def webhooks(
    world: World, policy: AddressPolicy, clock: SteeredClock | None = None
) -> AsyncGenerator[None]:
    created = e.SessionCreated(at_ms=1, epoch="e", source=CHANNEL, title="webhooks")
    await world.store.append(WEBHOOKS_LOG, [created])
    task = asyncio.create_task(Channels(replace(deps_of(world, clock), webhook_policy=policy), []).run())
    try:
        yield
    finally:
        task.cancel()
        await wait_through_cancel(task)


async def ask(world: World, address: str, text: str) -> None:
    """A run in a session, and the wish to have its result posted."""
    sent = await world.inbox.send("", IncomingMessage(text=text))
    assert isinstance(sent, Sent)
    wanted = ChannelResultRequested(
        at_ms=1, chat=address, session_id=sent.session_id, message_id=sent.message_id
    )
    await world.store.append(WEBHOOKS_LOG, [wanted, wanted])


async def test_a_result_is_posted_under_one_key_and_a_repeat_says_so() -> None:
    """P14: a receiver that is busy or cut gets it again, and can tell."""
    async with receiver(429, 0, 204) as there, ChaosServer([Say("hello")]) as chaos, process(chaos) as world:
        clock = SteeredClock()
        async with webhooks(world, OnLoopback(), clock):
            await ask(world, there.url, "hi")
            await world.until(WEBHOOKS_LOG, e.DeliveryUnknown)
            await settle()
            clock.advance(1)
            await there.done.wait()
            await world.until(WEBHOOKS_LOG, e.DeliveryConfirmed)
        keys = {headers["Idempotency-Key"] for headers, _ in there.got}
        assert len(keys) == 1
        assert [headers.get("Holdfast-Repeat", "") for headers, _ in there.got] == ["", "", "true"]
        assert {(body.outcome, body.output) for _, body in there.got} == {("completed", "hello")}


async def test_a_failed_run_is_one_post_with_what_went_wrong() -> None:
    async with receiver(204) as there, ChaosServer([bad_key()]) as chaos, process(chaos) as world:
        async with webhooks(world, OnLoopback()):
            await ask(world, there.url, "hi")
            await world.until(WEBHOOKS_LOG, e.DeliveryConfirmed, times=2)
        ((_, body),) = there.got
        assert body.outcome == "failed"
        assert body.message.startswith("Failed")


@pytest.mark.parametrize(
    "address", ["https://127.0.0.1/hook", "https://localhost/hook", "http://example.com/hook"]
)
async def test_no_address_inside_is_called(address: str) -> None:
    """P11: what is refused is on the log, and nothing is sent."""
    async with ChaosServer([Say("hello")]) as chaos, process(chaos) as world:
        async with webhooks(world, HttpsOnly()):
            await ask(world, address, "hi")
            records = await world.until(WEBHOOKS_LOG, e.DeliveryRejected)
        assert isinstance(records[-1].event, e.DeliveryRejected)
