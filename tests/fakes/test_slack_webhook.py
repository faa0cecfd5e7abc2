"""The fake Slack calls an app: signed as Slack's own library checks it, repeated, and given up."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from aiohttp import web
from slack_sdk.signature import SignatureVerifier

from fakes.slack import (
    Backdate,
    Double,
    FakeSlack,
    Forge,
    LoseEvent,
    MissAcknowledgement,
    ResetConnection,
    Reverse,
)
from holdfast.decisions.hook_signatures import HookDelivery, is_signed

CHAT = "D42"


@dataclass(slots=True)
class App:
    """An app that checks each call with Slack's own library; its `statuses` come first, 0 is no answer."""

    verifier: SignatureVerifier
    url: str = ""
    statuses: list[int] = field(default_factory=list[int])
    seen: list[tuple[dict[str, str], bytes]] = field(default_factory=list[tuple[dict[str, str], bytes]])
    refused: int = 0

    async def take(self, request: web.Request) -> web.Response:
        body, headers = await request.read(), dict(request.headers)
        is_right = self.verifier.is_valid_request(body, headers)
        ours = HookDelivery({key.lower(): value for key, value in headers.items()}, body)
        secret, now_ms = self.verifier.signing_secret, int(time.time() * 1000)
        assert is_right == is_signed(ours, "slack", secret=secret, now_ms=now_ms), (
            "ours is as strict as theirs"
        )
        if not is_right:
            self.refused += 1
            return web.Response(status=401)
        self.seen.append((headers, body))
        told: dict[str, Any] = json.loads(body) if body.startswith(b"{") else {}
        if told.get("type") == "url_verification":
            return web.json_response({"challenge": told["challenge"]})
        status = self.statuses.pop(0) if self.statuses else 200
        if not status:
            await asyncio.get_running_loop().create_future()
        return web.Response(status=status)

    def told(self) -> list[str]:
        """The texts of the messages that it was told of."""
        return [json.loads(body)["event"]["text"] for _, body in self.seen if b"event_callback" in body]


@asynccontextmanager
async def app_of(slack: FakeSlack) -> AsyncGenerator[App]:
    app, server = App(SignatureVerifier(slack.signing_secret)), web.Application()
    server.router.add_post("/slack", app.take)
    runner = web.AppRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    app.url = f"http://127.0.0.1:{runner.addresses[0][1]}/slack"
    try:
        yield app
    finally:
        await runner.cleanup()


async def settled(slack: FakeSlack) -> None:
    await slack.world.changed.until(lambda: not slack.waiting)


async def test_slacks_own_library_believes_every_call_and_finds_slacks_shapes() -> None:
    async with FakeSlack() as slack, app_of(slack) as app:
        assert not await slack.hook.verify(app.url)
        app.seen.clear()
        slack.world.say(CHAT, "hello")
        await settled(slack)
        button = {"type": "button", "action_id": "a", "value": "a:1", "text": {"text": "Allow"}}
        blocks = [{"type": "actions", "elements": [button]}]
        sent = slack.world.post(slack.world.conversation(CHAT), {"text": "Allow?", "blocks": blocks})
        slack.world.click(CHAT, sent["ts"], "a:1")
        await settled(slack)
        slack.world.command(CHAT, "new & more")
        await settled(slack)
        event, click, command = app.seen
        assert json.loads(event[1])["event"]["text"] == "hello"
        assert event[0]["Content-Type"] == "application/json"
        assert click[0]["Content-Type"] == command[0]["Content-Type"] == "application/x-www-form-urlencoded"
        payload: Any = json.loads(parse_qs(click[1].decode())["payload"][0])
        assert (payload["type"], payload["actions"][0]["value"]) == ("block_actions", "a:1")
        fields = parse_qs(command[1].decode())
        assert (fields["command"], fields["text"]) == (["/holdfast"], ["new & more"])
        assert await slack.hook.verify(f"{app.url}/other") == "HTTP 404"
        assert slack.hook.url == app.url


async def test_an_event_that_is_not_answered_is_told_again_with_the_reason_and_then_given_up() -> None:
    async with FakeSlack(repeats_s=(0.0, 0.0, 0.0), ack_s=0.3) as slack, app_of(slack) as app:
        slack.hook.url = app.url
        app.statuses = [500, 0, 503]
        slack.world.say(CHAT, "one")
        await settled(slack)
        retries = [(one.get("X-Slack-Retry-Num"), one.get("X-Slack-Retry-Reason")) for one, _ in app.seen]
        assert retries == [(None, None), ("1", "http_error"), ("2", "http_timeout"), ("3", "http_error")]
        app.statuses = [500] * 5
        slack.world.say(CHAT, "two")
        slack.world.command(CHAT, "new")
        await settled(slack)
        assert [one.kind for one in slack.lost] == ["slash_commands", "events_api"], "a command comes once"
        assert not app.refused


async def test_calls_go_wrong_by_script() -> None:
    async with FakeSlack(repeats_s=(0.0, 0.0, 0.0)) as slack, app_of(slack) as app:
        slack.hook.url = app.url
        slack.scripts.add("event", [Forge()], [Backdate()], [ResetConnection()])
        slack.world.say(CHAT, "one")
        await settled(slack)
        assert (app.refused, app.told()) == (2, ["one"])
        slack.scripts.add("event", [Double()])
        slack.world.say(CHAT, "two")
        await settled(slack)
        slack.scripts.add("event", [MissAcknowledgement()])
        slack.world.say(CHAT, "three")
        await settled(slack)
        assert app.told()[1:] == ["two", "two", "three", "three"]
        slack.scripts.add("event", [Reverse()])
        slack.world.say(CHAT, "four")
        slack.world.say(CHAT, "five")
        await settled(slack)
        assert app.told()[5:] == ["five", "four"]
        slack.scripts.add("event", [LoseEvent()])
        slack.world.say(CHAT, "six")
        await settled(slack)
        assert "six" not in app.told()
        assert len(slack.lost) == 1
        slack.scripts.add_text("event: forge | backdate")
        slack.world.say(CHAT, "seven")
        await settled(slack)
        assert app.refused == 4
