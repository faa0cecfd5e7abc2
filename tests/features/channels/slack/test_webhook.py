"""Slack calls us: one message for each event, and nothing for whoever doesn't know the signing secret."""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from agent.world import World, process
from fakes.slack import Backdate, FakeSlack, Forge, Hold, MissAcknowledgement, SlackError
from fakes.slack.world import APP, BOT_USER, TEAM
from features.channels.lab import echo, forward
from features.channels.slack.slack_lab import (
    LOG,
    MY,
    PATH,
    by_calls,
    fronted,
    said,
    state_of,
    until,
)
from holdfast.chaos import ChaosServer, Gate, closed_port
from holdfast.decisions.hook_signatures import TOLERANCE_S, slack_signature
from holdfast.features.channels.events import (
    ChannelConnected,
    ChannelFailed,
    ChannelUpdateLogged,
)
from holdfast.features.channels.http.updates import SIGNED_S, UNPROVEN_MAX
from holdfast.features.channels.slack.events import SlackInstallation, read_envelope
from runner.steered_clock import SteeredClock
from serving import Served

BIG = 10 * 1024 * 1024


def event_of(
    text: str,
    *,
    ts: str = "1800000001.000001",
    event_time: int = 0,
    installed: Mapping[str, str] | None = None,
) -> bytes:
    event = {"type": "message", "channel": MY, "channel_type": "im", "user": "U42", "text": text, "ts": ts}
    told = {"type": "event_callback", "event": event, "event_time": event_time or int(time.time())}
    return json.dumps({**told, "team_id": TEAM, "api_app_id": APP, **(installed or {})}).encode()


def signed(body: bytes, secret: str, *, at_s: float = 0.0) -> dict[str, str]:
    at = str(int(at_s or time.time()))
    signature = slack_signature(secret, at, body)
    return {"X-Slack-Request-Timestamp": at, "X-Slack-Signature": signature}


async def post(server: Served, body: bytes, headers: dict[str, str], path: str = PATH) -> tuple[int, bytes]:
    async with server.http.post(server.url + path, data=body, headers=headers) as response:
        return response.status, await response.read()


async def taken(world: World) -> list[str]:
    records = await world.log(LOG)
    return [one.event.became for one in records if isinstance(one.event, ChannelUpdateLogged)]


async def test_an_event_of_another_workspace_or_app_is_ignored() -> None:
    """P11: an app can be installed in several workspaces, and signs what happens in each."""
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        slack.world.conversation(MY)
        async with fronted(world, slack) as front:
            await world.until(LOG, ChannelConnected)
            others = ({"team_id": "T0OTHER"}, {"api_app_id": "A0OTHER"}, {"team_id": ""})
            for number, other in enumerate((*others, {})):
                body = event_of(f"hello {number}", ts=f"1800000001.00000{number}", installed=other)
                assert await post(front.server, body, signed(body, slack.signing_secret)) == (200, b"")
            await said(slack, "re: hello 3")
            assert await taken(world) == ["message"]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (
            "interactive",
            {
                "type": "block_actions",
                "team": {"id": TEAM},
                "actions": [{"value": "x"}],
                "message": {"ts": "1.1"},
            },
        ),
        ("slash_commands", {"team_id": TEAM, "user_id": "U1", "channel_id": MY, "trigger_id": "1"}),
    ],
)
def test_a_click_or_command_of_another_workspace_or_app_is_ignored(kind: str, fields: dict[str, Any]) -> None:
    """P8, P11."""
    payload = {"user": {"id": "U1"}, "channel": {"id": MY}, "text": "stop", "api_app_id": APP, **fields}
    assert read_envelope(kind, payload, us=SlackInstallation(BOT_USER, TEAM, APP)) is not None
    assert read_envelope(kind, payload, us=SlackInstallation(BOT_USER, TEAM)) is not None
    assert read_envelope(kind, payload, us=SlackInstallation(BOT_USER, "T0OTHER", APP)) is None
    assert read_envelope(kind, payload, us=SlackInstallation(BOT_USER, TEAM, "A0OTHER")) is None


ORG = SlackInstallation(BOT_USER, "", APP, enterprise="E0ORG")


@pytest.mark.parametrize(
    ("kind", "fields", "elsewhere"),
    [
        (
            "interactive",
            {
                "type": "block_actions",
                "is_enterprise_install": True,
                "team": None,
                "enterprise": {"id": "E0ORG", "name": "Org"},
                "user": {"id": "W1", "team_id": "E0ORG"},
                "channel": {"id": MY},
                "actions": [{"value": "x"}],
                "message": {"ts": "1.1"},
            },
            {"enterprise": {"id": "E0OTHER"}, "team": {"id": TEAM}},
        ),
        (
            "slash_commands",
            {
                "team_id": TEAM,
                "enterprise_id": "E0ORG",
                "user_id": "W1",
                "channel_id": MY,
                "trigger_id": "1",
            },
            {"enterprise_id": "E0OTHER"},
        ),
        (
            "events_api",
            {
                "team_id": None,
                "authorizations": [{"enterprise_id": "E0ORG", "team_id": None}],
                "event": {"type": "message", "channel": MY, "user": "W1", "text": "hi", "ts": "1.1"},
            },
            {"enterprise_id": "E0OTHER"},
        ),
    ],
)
def test_an_app_of_a_whole_organization_gets_the_events_of_all_its_workspaces(
    kind: str, fields: dict[str, Any], elsewhere: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """P8, P11: Slack names the organization then, and not always the workspace."""
    payload = {"api_app_id": APP, **fields}
    assert read_envelope(kind, payload, us=ORG) is not None
    with caplog.at_level("INFO"):
        assert read_envelope(kind, payload | elsewhere, us=ORG) is None
    assert "another installation" in caplog.text
    assert "E0OTHER" in caplog.text


async def test_the_same_event_ten_times_is_one_message_and_is_on_the_log_before_the_answer() -> None:
    """P2, P14: a 200 means that it is on the log; a repeat becomes nothing. No socket is opened."""
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        slack.world.conversation(MY)
        async with fronted(world, slack) as front:
            await world.until(LOG, ChannelConnected)
            body = event_of("hello")
            headers = signed(body, slack.signing_secret)
            answers = await asyncio.gather(*(post(front.server, body, headers) for _ in range(10)))
            assert set(answers) == {(200, b"")}
            assert await taken(world) == ["message"]
            await said(slack, "re: hello")
        assert not slack.world.done("apps.connections.open")
        assert chaos.seen.requests_seen == 1


async def test_spoofed_old_oversized_slow_and_unreadable_calls_leave_nothing_behind() -> None:
    """P11, P12: nothing is parsed before the signature is right, and nobody learns which channels exist."""
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with fronted(world, slack) as front:
            await world.until(LOG, ChannelConnected)
            before, body, secret = (
                await world.store.last_seq(LOG),
                event_of("hello"),
                slack.signing_secret,
            )
            right, now_s = signed(body, secret), time.time()
            refused = {
                "none": {},
                "another secret": signed(body, "another"),
                "another body": signed(body + b" ", secret),
                "old": signed(body, secret, at_s=now_s - TOLERANCE_S - 60),
                "early": signed(body, secret, at_s=now_s + TOLERANCE_S + 60),
                "no time": {"X-Slack-Signature": right["X-Slack-Signature"]},
                "a secret in a header": {"X-Telegram-Bot-Api-Secret-Token": secret},
            }
            for what, headers in refused.items():
                assert (await post(front.server, body, headers))[0] == 401, what
            unknown = await post(front.server, body, right, "/hooks/channels/other")
            assert unknown == await post(front.server, body, signed(body, "another"))
            assert (await post(front.server, b"{", signed(b"{", "another")))[0] == 401
            for bad in (
                b"{",
                b"[1]",
                b"payload=%7B",
                b"payload=[]",
                b"\xff",
                b"{" * 100_000,
                b"a=1&" * 200,
            ):
                assert (await post(front.server, bad, signed(bad, secret)))[0] == 400, bad[:20]
            nothing = (b'{"type": "event_callback"}', b"ssl_check=1", b'{"type": "other", "event": 5}')
            for harmless in nothing:
                assert await post(front.server, harmless, signed(harmless, secret)) == (200, b"")
            assert await _answer_to_headers(front.server, length=BIG) == b"413"
            assert await _answer_to_headers(front.server, length=100) == b"408"
            assert await world.store.last_seq(LOG) == before
        assert chaos.seen.requests_seen == 0


async def _answer_to_headers(server: Served, *, length: int) -> bytes:
    """The status that the server answers with when no body ever comes."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nX-Slack-Signature: v0=1\r\nContent-Length: {length}\r\n\r\n"
    writer.write(head.encode())
    async with asyncio.timeout(SIGNED_S + 30):
        status = (await reader.readline()).split()[1]
    writer.close()
    await writer.wait_closed()
    return status


async def test_a_call_that_is_forged_old_or_answered_too_late_is_made_again_and_taken_once() -> None:
    """P14: Slack repeats what wasn't answered, and a repeat of what is being taken waits for it."""
    gate = Gate()
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        slack.scripts.add("event", [Forge()], [Backdate()], [MissAcknowledgement()], [MissAcknowledgement()])
        async with by_calls(world, slack):
            slack.world.say(MY, "one")
            await said(slack, "re: one")
            await until(slack, lambda: not slack.waiting)
            slack.hook.answer_s = 0.2
            slack.scripts.add("users.info", [Hold(gate)])
            slack.world.say("D43", "a stranger, whose name takes Slack long")
            await gate.reached()
            await until(slack, lambda: any(one.told for one in slack.hook.waiting.values()))
            gate.open()
            await until(slack, lambda: not slack.waiting)
        assert [status for status, _ in slack.hook.answers[:3]] == [401, 401, 200]
        assert await taken(world) == ["message", "refused"]
        assert not slack.lost


async def test_a_repeat_of_what_takes_long_is_to_come_later_and_finds_it_done() -> None:
    """P10: repeats don't pile up behind a name that Slack is slow to tell."""
    gate = Gate()
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with fronted(world, slack) as front:
            await world.until(LOG, ChannelConnected)
            slack.world.conversation(MY)
            slack.scripts.add("users.info", [Hold(gate)])
            body = event_of("hello")
            headers = signed(body, slack.signing_secret)
            first = asyncio.create_task(post(front.server, body, headers))
            await gate.reached()
            assert (await post(front.server, body, headers))[0] == 503
            assert not first.done()
            gate.open()
            assert await first == (200, b"")
            assert await post(front.server, body, headers) == (200, b"")
            await said(slack, "re: hello")
        assert await taken(world) == ["message"]


async def test_buttons_and_slash_commands_are_answered_with_nothing() -> None:
    """What is in an answer to a slash command would be shown to its sender."""
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with by_calls(world, slack):
            slack.world.command(MY, "status")
            await until(slack, lambda: bool(slack.world.conversation(MY).texts()))
            await until(slack, lambda: not slack.waiting)
        assert slack.hook.answers == [(200, b"")]


async def test_slacks_challenge_is_answered_also_while_the_token_is_wrong() -> None:
    """The address is set up before everything else works; what comes then is to come again."""
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with fronted(world, slack, token="xoxb-wrong") as front:  # noqa: S106
            await world.until(LOG, ChannelFailed)
            assert await slack.hook.verify(front.server.url + PATH) == ""
            assert await slack.hook.verify(front.server.url + "/hooks/channels/other") == "HTTP 401"
            body = event_of("hello")
            assert (await post(front.server, body, signed(body, slack.signing_secret)))[0] == 503
        assert (await state_of(world)).trouble == "invalid_auth"


async def test_after_slack_could_not_be_reached_its_history_is_read_and_the_state_is_true() -> None:
    """P3, P14: the token is tried again and again, and what Slack gave up meanwhile is found."""
    clock = SteeredClock(int(time.time() * 1000))  # signatures are of now
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with by_calls(world, slack, clock=clock):
            slack.world.say(MY, "one")
            await said(slack, "re: one")
            slack.scripts.add("auth.test", [SlackError("service_unavailable", status=503)])
            await forward(clock, lambda: not slack.scripts.attempts["auth.test"])
            await world.until(LOG, ChannelFailed)
            assert not (await state_of(world)).is_connected
            url, slack.hook.url = slack.hook.url, ""
            slack.world.say(MY, "two")
            assert len(slack.lost) == 1
            slack.hook.url = url
            asked = len(slack.world.done("auth.test"))
            await forward(clock, lambda: len(slack.world.done("auth.test")) > asked)
            await said(slack, "re: one", "re: two")
            await world.until(LOG, ChannelConnected, times=2)
        assert (await state_of(world)).is_connected


async def test_an_event_that_comes_late_has_the_history_read_before_it() -> None:
    """P14: what Slack gave up just before it is taken first."""
    clock = SteeredClock(int(time.time() * 1000))  # signatures are of now
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with fronted(world, slack, clock=clock) as front:
            await world.until(LOG, ChannelConnected)
            slack.world.say(MY, "one")
            await said(slack, "re: one")
            slack.hook.url = ""
            slack.world.say(MY, "two")
            three = slack.world.say(MY, "three")
            clock.advance(61)
            at_s = clock.now_ms() // 1000
            body = event_of("three", ts=three["ts"], event_time=at_s - 300)
            assert await post(front.server, body, signed(body, slack.signing_secret)) == (200, b"")
            await said(slack, "re: one", "re: two", "re: three")
        assert await taken(world) == ["message"] * 3


async def test_an_address_that_leads_nowhere_is_said_and_recovers_by_itself() -> None:
    """P3: as far as one can know; if Slack's calls arrive, they do."""
    clock = SteeredClock(int(time.time() * 1000))  # signatures are of now
    with closed_port() as port:
        url = f"http://127.0.0.1:{port}"
        async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
            slack.world.conversation(MY)
            async with fronted(world, slack, clock=clock, webhook_url=url) as front:
                slack.hook.url = ""
                failed = asyncio.create_task(world.until(LOG, ChannelFailed))
                await forward(clock, failed.done)
                state = await state_of(world)
                assert f"Slack can't deliver to {url}/hooks/channels/sl" in state.trouble
                assert "public" in state.hint
                slack.hook.url = front.server.url + PATH
                slack.world.say(MY, "one")
                await said(slack, "re: one")
                connected = asyncio.create_task(world.until(LOG, ChannelConnected))
                await forward(clock, connected.done)
        assert (await state_of(world)).is_connected


async def test_what_slack_gave_up_while_our_address_was_away_is_found_once_it_is_back() -> None:
    """P14, P3: a server that can't reach itself says so, and reads the history when it can again."""
    clock = SteeredClock(int(time.time() * 1000))  # signatures are of now
    is_away = False

    async def answer(request: web.Request) -> web.Response:
        told = await request.json()
        return web.Response(status=502) if is_away else web.json_response({"challenge": told["challenge"]})

    async with (
        FakeSlack() as slack,
        ChaosServer(choose=echo) as chaos,
        process(chaos) as world,
        proxy(answer) as url,
        by_calls(world, slack, clock=clock, webhook_url=url),
    ):
        slack.world.say(MY, "one")
        await said(slack, "re: one")
        await world.until(LOG, ChannelConnected)
        is_away, hook_url, slack.hook.url = True, slack.hook.url, ""
        slack.world.say(MY, "two")
        failed = asyncio.create_task(world.until(LOG, ChannelFailed))
        await forward(clock, failed.done)
        assert "HTTP 502" in (await state_of(world)).trouble
        is_away, slack.hook.url = False, hook_url
        connected = asyncio.create_task(world.until(LOG, ChannelConnected, times=2))
        await forward(clock, connected.done)
        await said(slack, "re: one", "re: two")


@asynccontextmanager
async def proxy(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncGenerator[str]:
    """What stands at our public address, and answers everything itself."""
    server = web.Application()
    server.router.add_post(PATH, answer)
    runner = web.AppRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_what_slack_gives_up_is_lost_to_an_app_that_is_away_and_found_when_it_is_back() -> None:
    """P14: Slack calls four times; then only the history has it."""
    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        async with by_calls(world, slack):
            slack.world.say(MY, "one")
            await said(slack, "re: one")
        slack.hook.repeats_s = (0.0, 0.0, 0.0)
        slack.world.say(MY, "two")
        await until(slack, lambda: len(slack.lost) == 1)
        assert (slack.lost[0].told, slack.lost[0].reason) == (4, "connection_failed")
        async with by_calls(world, slack):
            await said(slack, "re: one", "re: two")


async def test_strangers_who_are_slow_keep_no_call_of_slack_out() -> None:
    """P3, P12: whoever reads longest gives way; a genuine call is there at once."""
    done = asyncio.Event()

    async def slow() -> AsyncGenerator[bytes]:
        yield b"{"
        await done.wait()

    async with FakeSlack() as slack, ChaosServer(choose=echo) as chaos, process(chaos) as world:
        slack.world.conversation(MY)
        async with fronted(world, slack) as front:
            await world.until(LOG, ChannelConnected)
            headers = signed(b"", "wrong")

            async def drip() -> int:
                async with front.server.http.post(
                    front.server.url + PATH, data=slow(), headers=headers
                ) as answer:
                    return answer.status

            strangers = [asyncio.create_task(drip()) for _ in range(UNPROVEN_MAX + 1)]
            await asyncio.wait(strangers, return_when=asyncio.FIRST_COMPLETED)
            slack.world.say(MY, "hi")
            await said(slack, "re: hi")
            done.set()
            assert {await one for one in strangers} <= {401, 503}
