"""The fake Slack against Slack's own library, as a web client and as a Socket Mode client."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import ActionsBlock, ButtonElement, SectionBlock
from slack_sdk.models.metadata import Metadata
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from fakes.slack import (
    Accept,
    Double,
    FakeSlack,
    LoseEvent,
    MissAcknowledgement,
    ResetConnection,
    Reverse,
    SlackError,
    SlackLimit,
)
from holdfast.chaos import BadScript

CHAT = "D42"


def client(slack: FakeSlack, token: str = "") -> Any:  # its methods have no types
    return AsyncWebClient(token or slack.token, base_url=slack.api_url)


@asynccontextmanager
async def socket(slack: FakeSlack, seen: list[Any]) -> AsyncGenerator[None]:
    """A Socket Mode client that acknowledges everything."""
    before = len(slack.sockets.open)
    app: Any = SocketModeClient(slack.app_token, web_client=client(slack))

    async def take(one: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        seen.append(request)
        await one.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        slack.world.changed.notify()

    app.socket_mode_request_listeners.append(take)
    await app.connect()
    await slack.world.changed.until(lambda: len(slack.sockets.open) > before)
    try:
        yield
    finally:
        tasks = [app.message_processor, app.current_session_monitor, app.message_receiver]
        await app.close()
        await asyncio.gather(*(one for one in tasks if one is not None), return_exceptions=True)


async def test_slacks_own_library_understands_every_answer() -> None:
    async with FakeSlack() as slack:
        web = client(slack)
        me = await web.auth_test()
        assert (me["user_id"], me["team_id"]) == ("U0BOT", "T0FAKE")
        root = slack.world.say(CHAT, "hello <&>")
        key = Metadata("holdfast_delivery", {"key": "r/answer/0"})
        sent = await web.chat_postMessage(channel=CHAT, text="hi &lt;", metadata=key)
        assert slack.world.conversation(CHAT).texts() == ["hi <"]
        await web.chat_postMessage(channel=CHAT, text="in a thread", thread_ts=root["ts"])
        history = await web.conversations_history(channel=CHAT, include_all_metadata=True)
        assert [one["text"] for one in history["messages"]] == ["hi &lt;", "hello &lt;&amp;&gt;"]
        assert history["messages"][0]["metadata"]["event_payload"] == {"key": "r/answer/0"}
        bare = await web.conversations_history(channel=CHAT, limit=1)
        assert "metadata" not in bare["messages"][0]
        older = await web.conversations_history(
            channel=CHAT, limit=1, cursor=bare["response_metadata"]["next_cursor"]
        )
        assert older["messages"][0]["ts"] == root["ts"]
        replies = await web.conversations_replies(channel=CHAT, ts=root["ts"])
        assert [one["text"] for one in replies["messages"]][1:] == ["in a thread"]
        await web.chat_update(channel=CHAT, ts=sent["ts"], text="changed")
        await web.chat_postEphemeral(channel=CHAT, user="U42", text="only you")
        assert slack.world.conversation(CHAT).ephemeral == [("U42", "only you")]
        await web.chat_delete(channel=CHAT, ts=sent["ts"])
        assert slack.world.conversation(CHAT).texts() == ["in a thread"]
        assert (await web.conversations_info(channel=CHAT))["channel"]["is_im"]
        assert (await web.users_info(user="U42"))["user"]["profile"]["display_name"] == "User 42"
        await web.files_upload_v2(channel=CHAT, content="report", filename="report.txt")
        (file,) = slack.world.files.values()
        assert (await web.files_info(file=file["id"]))["file"]["size"] == 6
        async with aiohttp.ClientSession() as http:
            headers = {"Authorization": f"Bearer {slack.token}"}
            async with http.get(file["url_private"], headers=headers) as response:
                assert await response.read() == b"report"
            async with http.get(file["url_private"], allow_redirects=False) as response:
                assert response.status == 302


async def test_a_real_socket_client_hears_what_people_do_and_acknowledges_it() -> None:
    seen: list[Any] = []
    async with FakeSlack() as slack, socket(slack, seen):
        web = client(slack)
        slack.world.say(CHAT, "hello")
        slack.world.say("C5", "@bot hello", user="U42")
        blocks = [
            SectionBlock(text="Allow?"),
            ActionsBlock(elements=[ButtonElement(text="Allow", action_id="a", value="a:1")]),
        ]
        sent = await web.chat_postMessage(channel=CHAT, text="Allow?", blocks=blocks)
        assert slack.world.buttons(CHAT) == {"Allow": (sent["ts"], "a:1")}
        slack.world.click(CHAT, str(sent["ts"]), "a:1")
        slack.world.command(CHAT, "new")
        await slack.world.changed.until(lambda: len(slack.sockets.acknowledged) == 5)
    events = [one.payload["event"] for one in seen if one.type == "events_api"]
    assert [(one["type"], one["channel"]) for one in events] == [
        ("message", CHAT),
        ("message", "C5"),
        ("app_mention", "C5"),
    ]
    click, command = (one for one in seen if one.type != "events_api")
    assert (click.type, click.payload["actions"][0]["value"]) == ("interactive", "a:1")
    assert (command.type, command.payload["text"]) == ("slash_commands", "new")


async def test_an_envelope_that_is_not_acknowledged_is_told_again_and_one_without_a_socket_is_lost() -> None:
    seen: list[Any] = []
    async with FakeSlack(ack_s=1.0) as slack:
        slack.world.say(CHAT, "nobody hears it")
        assert len(slack.sockets.lost) == 1
        async with socket(slack, seen):
            slack.scripts.add("event", [MissAcknowledgement()], [Accept()], [Double()], [LoseEvent()])
            slack.world.say(CHAT, "slow")
            await slack.world.changed.until(lambda: len(slack.sockets.acknowledged) == 1)
            assert [one.retry_attempt for one in seen] == [0, 1]
            slack.world.say(CHAT, "twice")
            await slack.world.changed.until(lambda: len(seen) == 4)
            assert seen[2].envelope_id == seen[3].envelope_id
            slack.world.say(CHAT, "lost")
            await slack.world.changed.until(lambda: len(slack.sockets.lost) == 2)
            slack.scripts.add("event", [Reverse()])
            slack.world.say(CHAT, "first")
            slack.world.say(CHAT, "second")
            await slack.world.changed.until(lambda: len(seen) == 6)
            assert [one.payload["event"]["text"] for one in seen[4:]] == ["second", "first"]


async def test_it_refuses_what_slack_refuses_in_slacks_words() -> None:
    async with FakeSlack() as slack:
        web = client(slack)
        with pytest.raises(SlackApiError, match="invalid_auth"):
            await client(slack, "xoxb-other").auth_test()
        with pytest.raises(SlackApiError, match="channel_not_found"):
            await web.chat_postMessage(channel="D1", text="x")
        person = slack.world.say(CHAT, "mine")
        bad = [{"type": "section", "text": {"type": "mrkdwn", "text": "x" * 3_001}}]
        for arguments, why in (
            ({"text": " "}, "no_text"),
            ({"text": "x" * 40_001}, "msg_too_long"),
            ({"text": "x", "blocks": bad}, "invalid_blocks"),
            ({"text": "x", "metadata": {"event_type": "x"}}, "invalid_metadata_format"),
            ({"text": "x", "thread_ts": "1.1"}, "thread_not_found"),
        ):
            with pytest.raises(SlackApiError, match=why):
                await web.api_call("chat.postMessage", json={"channel": CHAT, **arguments})
        with pytest.raises(SlackApiError, match="message_not_found"):
            await web.chat_update(channel=CHAT, ts="1.1", text="x")
        with pytest.raises(SlackApiError, match="cant_update_message"):
            await web.chat_update(channel=CHAT, ts=str(person["ts"]), text="x")
        slack.world.conversation(CHAT).archived = True
        with pytest.raises(SlackApiError, match="is_archived"):
            await web.chat_postMessage(channel=CHAT, text="x")


async def test_faults_come_by_script_and_the_record_says_what_arrived() -> None:
    async with FakeSlack() as slack:
        web = client(slack)
        slack.world.conversation(CHAT)
        slack.scripts.add(
            "chat.postMessage", [SlackLimit(3)], [Accept(), ResetConnection()], [ResetConnection()]
        )
        slack.scripts.add("chat.postMessage@D43", [SlackError("restricted_action")])
        with pytest.raises(SlackApiError) as limited:
            await web.chat_postMessage(channel=CHAT, text="first")
        error: Any = limited.value
        assert error.response.headers["Retry-After"] == "3"
        with pytest.raises(SlackApiError, match="restricted_action"):
            await web.chat_postMessage(channel="D43", text="other chat")
        web.retry_handlers.clear()
        for text in ("arrives", "does not"):
            with pytest.raises(aiohttp.ClientError):
                await web.chat_postMessage(channel=CHAT, text=text)
        assert slack.world.conversation(CHAT).texts() == ["arrives"]
        assert [call.outcome for call in slack.world.calls] == ["ratelimited", "restricted_action", "done"]
        slack.scripts.add_text("chat.update: refuse edit_window_closed\nevent: double | miss-ack")
        with pytest.raises(BadScript, match="did you mean 'accept'"):
            slack.scripts.add_text("chat.update: acept")
