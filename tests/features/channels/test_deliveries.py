"""A platform calls any server of a cluster: the one that holds the channel takes it, once."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from fakes.slack import Double, FakeSlack, Forge
from fakes.telegram import FakeTelegram
from features.channels.lab import ME, echo, options_for, said, served_channels, until
from features.channels.slack import slack_lab
from holdfast.chaos import ChaosServer, closed_port
from holdfast.features.channels.deps import ChannelOptions
from holdfast.features.channels.events import (
    ChannelConnected,
    ChannelUpdateLogged,
)
from holdfast.features.postgres.peers.signatures import HEADER, PeerSignatures, Question
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.shared_notes import cluster_secret
from holdfast.server.options import ApiKey
from runner.memory_nodes import Cluster, NodeStore
from serving import Answer, Served, served, target_of

SECRET = "X-Telegram-Bot-Api-Secret-Token"  # noqa: S105  # the name of a header
PATH = "/hooks/channels/tg"


def update_of(text: str, *, update_id: int = 1) -> dict[str, Any]:
    person = {"id": ME, "is_bot": False, "first_name": "Me"}
    message = {
        "message_id": update_id,
        "date": 1,
        "chat": {"id": ME, "type": "private", "first_name": "Me"},
        "from": person,
        "text": text,
    }
    return {"update_id": update_id, "message": message}


@dataclass(slots=True)
class Two:
    """Two servers on one store. Each runs the channel once its future has the address that Telegram calls."""

    cluster: Cluster
    options: ChannelOptions
    servers: list[Served] = field(default_factory=list[Served])
    stores: list[NodeStore] = field(default_factory=list[NodeStore])
    begin: list[asyncio.Future[str]] = field(default_factory=list[asyncio.Future[str]])

    async def held_by_a(self) -> None:
        """Wait until the first server holds the channel, and Telegram calls the second."""
        self.begin[0].set_result(self.servers[1].url)
        async for records in self.stores[0].follow(self.options.log_id):
            if any(isinstance(record.event, ChannelConnected) for record in records):
                return

    async def post(self, nth: int, body: Any, **headers: str) -> Answer:
        """A delivery to one of the servers."""
        return await self.servers[nth].call("POST", PATH, body=body, headers=headers)

    async def taken(self) -> list[str]:
        """What became of the updates that are on the log."""
        records = await self.stores[1].read(self.options.log_id)
        return [one.event.became for one in records if isinstance(one.event, ChannelUpdateLogged)]


@asynccontextmanager
async def two(chaos: ChaosServer, options: ChannelOptions) -> AsyncGenerator[Two]:
    made = Two(Cluster(), options)
    async with AsyncExitStack() as stack:
        for name in "ab":
            store = made.cluster.join(name)
            begin: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            setting = replace(served_channels(options, url=begin), store=store)
            setting = replace(
                setting, options=replace(setting.options, keys=(ApiKey("team", "s3cret-of-the-team"),))
            )
            server = await stack.enter_async_context(served(target_of(chaos), setting=setting))
            store.url = server.url
            made.servers.append(server)
            made.stores.append(store)
            made.begin.append(begin)
        yield made


async def test_a_delivery_to_a_server_that_does_not_hold_the_channel_is_taken_once() -> None:
    """P14, P2: whichever server is called, a 200 means that it is on the log, and a repeat is nothing."""
    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=echo) as chaos,
        two(chaos, options_for(telegram)) as both,
    ):
        telegram.world.chat(ME)
        await both.held_by_a()
        secret = both.options.hook_secret
        answers = await asyncio.gather(
            *(both.post(nth % 2, update_of("hello"), **{SECRET: secret}) for nth in range(10))
        )
        assert {one.status for one in answers} == {200}
        assert {one.body for one in answers} == {b'{"accepted":true}'}
        assert await both.taken() == ["message"]
        await said(telegram, "re: hello")
        assert (await both.post(1, b"{", **{SECRET: secret})).status == 400
        assert (await both.post(1, update_of("spoofed", update_id=2), **{SECRET: "wrong"})).status == 401
        assert await both.taken() == ["message"]
        assert chaos.seen.requests_seen == 1


async def test_a_call_of_slack_to_a_server_that_does_not_hold_the_channel_is_taken_once() -> None:
    """P14, P11: the server that is called checks the signature, and answers as the other one does."""
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos:
        async with two(chaos, slack_lab.options_for(slack, app_token="")) as both:
            await both.held_by_a()
            slack.hook.repeats_s = slack_lab.REPEATS_S
            assert await slack.hook.verify(both.servers[1].url + slack_lab.PATH) == ""
            slack.scripts.add("event", [Forge()], [Double()])
            slack.world.say(slack_lab.MY, "hello")
            await slack_lab.said(slack, "re: hello")
            slack.world.command(slack_lab.MY, "new")
            await slack_lab.until(slack, lambda: not slack.waiting)
            assert [status for status, _ in slack.hook.answers] == [401, 200, 200, 200]
            assert {body for status, body in slack.hook.answers if status == 200} == {b""}
            assert await both.taken() == ["message", "command"]
        assert not slack.lost
        assert chaos.seen.requests_seen == 1


async def test_a_holder_that_dies_between_two_deliveries_loses_none() -> None:
    """P14, P6: until another server holds the channel, Telegram is told to come again."""
    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=echo) as chaos,
        two(chaos, options_for(telegram)) as both,
    ):
        await both.held_by_a()
        telegram.world.say(ME, "one")
        await said(telegram, "re: one")
        with closed_port() as port:
            both.stores[0].url = f"http://127.0.0.1:{port}"
            answer = await both.post(1, update_of("x"), **{SECRET: both.options.hook_secret})
            assert (answer.status, answer.code) == (503, "server_silent")
            assert answer.headers["Retry-After"] == "2"
            assert "Server a has the channel but isn't responding" in answer.json["error"]["message"]
            telegram.world.say(ME, "two")
            hook = telegram.world.webhook
            assert hook is not None
            await until(telegram, lambda: "503" in hook.error)
            both.cluster.bury(both.stores[0])
            both.begin[1].set_result(both.servers[1].url)
            await said(telegram, "re: one", "re: two")
        assert await both.taken() == ["message", "message"]
        assert chaos.seen.requests_seen == 2


async def test_what_was_passed_on_is_never_passed_on_again() -> None:
    """P10: two servers that take each other for the holder don't call each other for ever."""
    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=echo) as chaos,
        two(chaos, options_for(telegram)) as both,
    ):
        await both.held_by_a()
        body = json.dumps(update_of("hello")).encode()
        signature = await sign(both, Question("b", "POST", PATH, body))
        answer = await both.post(1, body, **{HEADER.decode(): signature})
        assert (answer.status, answer.code) == (503, "too_busy")
        assert answer.headers["Retry-After"] == "2"
        assert await both.taken() == []


async def sign(both: Two, question: Question, *, key: str = "", secret: bytes | None = None) -> str:
    signatures = PeerSignatures(SystemClock(), "b")
    signatures.key = await cluster_secret(both.stores[0]) if secret is None else secret
    return signatures.sign(question, key_name=key)


async def test_only_a_signature_of_the_cluster_for_this_very_delivery_replaces_the_secret() -> None:
    """P11: no other server's word counts, and a signature without a key opens nothing else."""
    async with (
        FakeTelegram() as telegram,
        ChaosServer(choose=echo) as chaos,
        two(chaos, options_for(telegram)) as both,
    ):
        await both.held_by_a()
        body = json.dumps(update_of("hello")).encode()
        right = Question("a", "POST", PATH, body)
        refused = {
            "another secret": await sign(both, right, secret=b"x" * 32),
            "no secret": await sign(both, right, secret=b""),
            "another path": await sign(both, Question("a", "POST", "/hooks/channels/other", body)),
            "another server": await sign(both, Question("b", "POST", PATH, body)),
            "another body": await sign(both, Question("a", "POST", PATH, body + b" ")),
        }
        for what, signature in refused.items():
            answer = await both.post(0, body, **{HEADER.decode(): signature})
            assert (answer.status, answer.code) == (401, "peer_refused"), what
        keyed = await sign(both, right, key="team")
        assert (await both.post(0, body, **{HEADER.decode(): keyed})).code == "peer_key_unknown"
        for target in ("/v1/runs", "/hooks/trg_1", "/api/channels/tg/pair"):
            elsewhere = await sign(both, Question("a", "POST", target, b"{}"))
            answer = await both.servers[0].call(
                "POST", target, body=b"{}", headers={HEADER.decode(): elsewhere}
            )
            assert (answer.status, answer.code) == (403, "peer_key_unknown"), target
        assert await both.taken() == []
        signature = await sign(both, right)
        assert (await both.post(0, body, **{HEADER.decode(): signature})).status == 200
        assert (await both.post(0, body, **{HEADER.decode(): signature})).status == 401
        assert await both.taken() == ["message"]
