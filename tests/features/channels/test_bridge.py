"""A bridge's calls are signed and recent, and what it answers decides whether a message is sent anew."""

import base64
import json
import time

import pytest

from config.given import loaded
from fakes.bridge import SECRET, FakeBridge, signed
from features.channels.lab import echo, served_channels
from features.channels.text_lab import ANN, BridgeSide
from holdfast.chaos import ChaosServer
from holdfast.config.sources import BadConfiguration
from holdfast.decisions.deliveries import (
    Arrived,
    DidNotArrive,
    FormatRefused,
    MayHaveArrived,
    NotAccepted,
    SendResult,
)
from holdfast.features.channels.bridge.channel import read_update, result_of
from holdfast.features.channels.cli.doctor import ask_platforms
from holdfast.features.channels.http.webhook_endpoints import BadUpdate
from host.chat_settings import TARGET
from serving import served, target_of
from tables import for_each_row

PATH = "/hooks/channels/br"
OTHER = "whsec_" + base64.b64encode(b"another secret, also 32 bytes...").decode()
CHANNEL = """
[[channels]]
name = "br"
kind = "bridge"
token = "{token}"
base_url = "{url}"
"""


async def test_only_signed_and_recent_calls_are_accepted_each_once() -> None:
    """P11, P14: a forged or old call gets the same refusal as one to a channel that doesn't exist."""
    async with FakeBridge() as fake, ChaosServer(choose=echo) as chaos:
        side = BridgeSide(fake)
        async with served(target_of(chaos), setting=served_channels(side.options())) as server:
            await fake.changed.until(lambda: fake.pings > 0)
            body = json.dumps(
                {"type": "message", "id": "u1", "chat": ANN, "user": ANN, "text": "hi"}
            ).encode()

            async def call(headers: dict[str, str], *, path: str = PATH, data: bytes = body) -> int:
                return (await server.call("POST", path, body=data, headers=headers)).status

            old_s = time.time() - 400
            right = signed(body, id_="u1")
            refused = [
                await call(signed(body, id_="u1", secret=OTHER)),
                await call(signed(body, id_="u1", at_s=old_s)),
                await call(right | {"webhook-id": "u2"}),
                await call(right, data=body + b" "),
                await call(right, path="/hooks/channels/none"),
                await call({"x-slack-signature": "v0=1", "x-slack-request-timestamp": "1"}),
                await call({}),
            ]
            assert refused == [401] * 7
            assert [await call(right), await call(right), await call(signed(body, id_="u1"))] == [200] * 3
            await fake.changed.until(lambda: bool(fake.texts(ANN)))
            bad = b'{"type": "message"}'
            assert await call(signed(bad, id_="x"), data=bad) == 400
            assert fake.texts(ANN) == ["re: hi"]
            assert chaos.seen.requests_seen == 1


@for_each_row(
    ("status", "body", "result"),
    [
        (200, b'{"message_id": "7"}', Arrived("7")),
        (204, b"", Arrived("")),
        (302, b"", NotAccepted("HTTP 302")),
        (400, b"too long", FormatRefused("HTTP 400: too long")),
        (401, b"", DidNotArrive("HTTP 401")),
        (404, b"no chat", NotAccepted("HTTP 404: no chat")),
        (410, b"", NotAccepted("HTTP 410", ends_chat=True)),
        (429, b"", DidNotArrive("HTTP 429", 7.0)),
        (503, b"", DidNotArrive("HTTP 503", 7.0)),
        (500, b"", MayHaveArrived("HTTP 500")),
        (999, b"", MayHaveArrived("HTTP 999")),
    ],
)
async def test_an_answer_decides_whether_a_message_arrived(
    status: int, body: bytes, result: SendResult
) -> None:
    """P14: only an answer that says so means that nothing was sent."""
    assert result_of(status, body, retry_after="7") == result


@for_each_row(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"type":"message","id":"","chat":"c","user":"u"}',
        b"[" * 100_000,
        b'{"type":"message","id":"i","chat":"c","user":"u","files":[{"data":"%"}]}',
    ],
)
async def test_a_malformed_update_is_refused(body: bytes) -> None:
    """P12: with one kind of error."""
    with pytest.raises(BadUpdate):
        read_update(body)


async def test_a_bridge_is_configured_and_checked_by_the_doctor() -> None:
    """P12: what is missing is said, and a bridge that is away is a fault."""
    async with FakeBridge() as fake:
        text = TARGET.format(url="http://127.0.0.1:1")
        settings = loaded(text + CHANNEL.format(token=SECRET, url=fake.url)).settings
        assert [one.state for one in await ask_platforms(settings)] == ["ok"]
        fake.secret = ""
        other = loaded(text + CHANNEL.format(token=OTHER, url=fake.url)).settings
        (found,) = await ask_platforms(other)
        assert (found.state, "HTTP 401" in found.text) == ("fault", True)
    for channel, said in (
        (CHANNEL.format(token=SECRET[:9], url=fake.url), "at least 24 characters"),
        (CHANNEL.format(token=SECRET, url=""), "must be the bridge's URL"),
    ):
        with pytest.raises(BadConfiguration, match=said):
            loaded(text + channel)
