"""Telegram calls us: one message for each update, and nothing for whoever doesn't know the secret."""

import asyncio
from typing import Any

from msgspec.structs import replace

from agent.world import process
from fakes.telegram import FakeTelegram
from features.channels.lab import (
    LOG,
    ME,
    channel,
    echo,
    options_for,
    said,
    served_channels,
    state_of,
    until,
)
from holdfast.chaos import ChaosServer
from holdfast.features.channels.deps import ChannelOptions
from holdfast.features.channels.events import (
    ChannelConnected,
    ChannelFailed,
    ChannelUpdateLogged,
)
from holdfast.features.channels.http.updates import UNPROVEN_MAX
from holdfast.racing import wait_through_cancel
from holdfast.server.options import Limits
from runner.steered_clock import SteeredClock, settle
from serving import Served, Setting, served, target_of
from stores import MemoryStore

SECRET = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105  # the name of a header
PATH = "/hooks/channels/tg"
BIG = 10 * 1024 * 1024


def update_of(text: str, *, update_id: int = 1) -> dict[str, Any]:
    person = {"id": ME, "is_bot": False, "first_name": "Me"}
    chat = {"id": ME, "type": "private", "first_name": "Me"}
    message = {"message_id": update_id, "date": 1, "chat": chat, "from": person, "text": text}
    return {"update_id": update_id, "message": message}


def hooked(options: ChannelOptions, store: MemoryStore) -> tuple[Setting, asyncio.Future[str]]:
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    return replace(served_channels(options, url=url), store=store), url


async def post(server: Served, body: Any, secret: str, path: str = PATH) -> int:
    async with server.http.post(server.url + path, headers={SECRET: secret}, **body) as response:
        return response.status


async def until_hooked(store: MemoryStore) -> None:
    async for records in store.follow(LOG):
        if any(isinstance(record.event, ChannelConnected) for record in records):
            return


async def test_telegram_calls_and_what_waited_before_is_not_dropped_either_way() -> None:
    """P14: from polling to a webhook and back, no message is lost or doubled."""
    store = MemoryStore()
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos:
        options = options_for(telegram)
        telegram.world.say(ME, "before")
        setting, url = hooked(options, store)
        async with served(target_of(chaos), setting=setting) as server:
            url.set_result(server.url)
            await said(telegram, "re: before")
            telegram.world.say(ME, "while")
            await said(telegram, "re: before", "re: while")
            assert telegram.world.webhook is not None
            assert telegram.world.done("getUpdates") == []
        telegram.world.say(ME, "between")
        async with process(chaos, store=store) as world, channel(world, options):
            await said(telegram, "re: before", "re: while", "re: between")
        assert telegram.world.webhook is None
        assert all(not one.parameters["drop_pending_updates"] for one in telegram.world.done("deleteWebhook"))
        assert all(not one.parameters["drop_pending_updates"] for one in telegram.world.done("setWebhook"))
        assert chaos.seen.requests_seen == 3


async def test_the_same_update_ten_times_is_one_message_and_is_on_disk_before_the_answer() -> None:
    """P2, P14: a 200 means that it is on the log; a repeat becomes nothing."""
    store = MemoryStore()
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos:
        options = options_for(telegram)
        telegram.world.chat(ME)
        setting, url = hooked(options, store)
        async with served(target_of(chaos), setting=setting) as server:
            url.set_result(server.url)
            await until_hooked(store)
            body = {"json": update_of("hello")}
            statuses = await asyncio.gather(*(post(server, body, options.hook_secret) for _ in range(10)))
            assert statuses == [200] * 10
            taken = [one.event for one in await store.read(LOG) if isinstance(one.event, ChannelUpdateLogged)]
            assert [one.became for one in taken] == ["message"]
            await said(telegram, "re: hello")
        assert chaos.seen.requests_seen == 1


async def test_spoofed_oversized_slow_and_unreadable_deliveries_leave_nothing_behind() -> None:
    """P11, P12: without the secret, nothing of the body is read, and nobody learns which channels exist."""
    store = MemoryStore()
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos:
        options = options_for(telegram)
        setting, url = hooked(options, store)
        limits = Limits(hook_s=1.0)
        setting = replace(setting, options=replace(setting.options, limits=limits))
        async with served(target_of(chaos), setting=setting) as server:
            url.set_result(server.url)
            await until_hooked(store)
            before = await store.last_seq(LOG)
            body = {"json": update_of("hello")}
            assert await post(server, body, "wrong") == 401
            assert await post(server, body, "") == 401
            assert await post(server, body, options.hook_secret, "/hooks/channels/other") == 401
            assert await _answer_to_headers(server, "wrong", length=100_000) == b"401"
            assert await _answer_to_headers(server, "wrong", length=BIG) == b"413"
            assert await _answer_to_headers(server, options.hook_secret, length=BIG) == b"413"
            assert await _answer_to_headers(server, options.hook_secret, length=100) == b"408"
            assert await post(server, {"data": b"{"}, options.hook_secret) == 400
            assert await post(server, {"data": b"[" * 100_000}, options.hook_secret) == 400
            assert await post(server, {"json": {"update_id": 1, "poll": {}}}, options.hook_secret) == 200
            assert await store.last_seq(LOG) == before
        assert chaos.seen.requests_seen == 0


async def _answer_to_headers(server: Served, secret: str, *, length: int) -> bytes:
    """The status that the server answers with when the headers are there, and no body ever comes."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\n{SECRET}: {secret}\r\nContent-Length: {length}\r\n\r\n"
    writer.write(head.encode())
    status = (await reader.readline()).split()[1]
    writer.close()
    await writer.wait_closed()
    return status


async def test_strangers_who_claim_to_sign_and_send_nothing_hold_up_nobody_else() -> None:
    """P10: they have places of their own, and when those are taken, the oldest of them is sent away."""
    store = MemoryStore()
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos:
        options = options_for(telegram)
        telegram.world.chat(ME)
        setting, url = hooked(options, store)
        async with served(target_of(chaos), setting=setting) as server:
            url.set_result(server.url)
            await until_hooked(store)
            strangers = [asyncio.create_task(_unfinished(server)) for _ in range(UNPROVEN_MAX + 1)]
            await asyncio.wait(strangers, return_when=asyncio.FIRST_COMPLETED)
            assert await post(server, {"json": update_of("hello")}, options.hook_secret) == 200
            await said(telegram, "re: hello")
            sent_away, others = await asyncio.wait(strangers, return_when=asyncio.FIRST_COMPLETED)
            for one in others:
                one.cancel()
            await wait_through_cancel(*others)
            assert b"503" in {one.result() for one in sent_away}


async def _unfinished(server: Served) -> bytes:
    """The status for a call with a signature, and without a body."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"POST {PATH} HTTP/1.1\r\nHost: x\r\nX-Slack-Signature: v0=1\r\n".encode())
    writer.write(b"Content-Length: 9\r\n\r\n")
    try:
        return (await reader.readline()).split()[1]
    finally:
        writer.close()


async def test_a_server_that_does_not_hold_the_channel_asks_for_it_later() -> None:
    """P2: what isn't taken isn't acknowledged."""
    async with FakeTelegram() as telegram, ChaosServer() as chaos:
        options = options_for(telegram)
        setting, _ = hooked(options, MemoryStore())
        async with served(target_of(chaos), setting=setting) as server:
            assert await post(server, {"json": update_of("hello")}, options.hook_secret) == 503


async def test_a_webhook_that_telegram_cannot_reach_is_red_and_recovers_by_itself() -> None:
    """P3: what waits at Telegram is seen here, and nothing of it is lost."""
    clock = SteeredClock()
    async with FakeTelegram() as telegram, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        options = options_for(telegram, webhook_url="http://127.0.0.1:9")
        async with channel(world, options, clock=clock):
            await world.until(LOG, ChannelConnected)
            telegram.world.say(ME, "hello")
            hook = telegram.world.webhook
            assert hook is not None
            await until(telegram, lambda: bool(hook.error))
            await settle()
            clock.advance(30)
            records = await world.until(LOG, ChannelFailed)
            failed = records[-1].event
            assert isinstance(failed, ChannelFailed)
            assert "Connection failed" in failed.why
            assert "public" in failed.hint
        async with channel(world, options_for(telegram), clock=clock):
            await said(telegram, "re: hello")
            assert (await state_of(world)).is_connected
