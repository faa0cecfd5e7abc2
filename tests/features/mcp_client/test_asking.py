"""Servers that ask for something while a tool runs."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from typing_extensions import override

from features.mcp_client.asking import AnsweringCall, answering, asking_server, serving_sdk
from features.mcp_client.scene import ENVIRONMENT, QUICK, McpCall, named, raw, run, servers
from holdfast.config.mcp_servers import McpServerConfig
from holdfast.features.mcp_client.forms import FormField
from holdfast.features.mcp_client.open_call import QUESTIONS_MAX, CallTimer
from holdfast.features.mcp_client.server import ServerPlace
from holdfast.features.mcp_client.servers import McpServers
from tools.loops import ON_BOTH_LOOPS

PAGE = "https://pay.example.com/a?b=c"


@asynccontextmanager
async def connected(
    tmp_path: Path, *, kind: Literal["http", "sse"] = "http", roots: Literal["off", "workspace"] = "off"
) -> AsyncGenerator[McpServers]:
    async with serving_sdk(asking_server(), kind=kind) as url:
        config = McpServerConfig(name="asking", url=url, roots=roots)
        place = ServerPlace(workspace=tmp_path)
        async with McpServers([config], environment=ENVIRONMENT, patience=QUICK, place=place) as of:
            yield of


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_a_form_is_asked_field_by_field_and_bad_answers_are_asked_again(
    tmp_path: Path, kind: Literal["http", "sse"]
) -> None:
    async with connected(tmp_path, kind=kind) as of:
        call = answering(tmp_path, "Oslo", "ninety", "31", "3", "Skip")
        result = await run(of, "book", call, label="asking")
        assert result.text == "accept {'city': 'Oslo', 'days': 3, 'business': False}"
        first = call.asked[0][0]
        assert first.startswith("The MCP server asking asks: Where shall it go?")
        assert "City (text, of at least 2 characters): Where to (1 of 3)" in first
        assert "a whole number from 1 to 30" in call.asked[2][0].splitlines()[0]
        assert call.asked[-1][1] == ("Yes", "No", "Skip", "Decline")


async def test_one_answer_can_be_the_whole_form_a_decline_or_silence(tmp_path: Path) -> None:
    async with connected(tmp_path) as of:
        whole = answering(tmp_path, '{"city": "Rome", "days": 2, "business": true}')
        assert "'business': True" in (await run(of, "book", whole, label="asking")).text
        wrong = answering(tmp_path, '{"city": "Rome"}', '{"town": "Rome"}', "Decline")
        assert (await run(of, "book", wrong, label="asking")).text == "decline None"
        assert "'days' is missing" in wrong.asked[1][0]
        assert "no field 'town'" in wrong.asked[2][0]
        declined = answering(tmp_path, "Oslo", "decline")
        assert (await run(of, "book", declined, label="asking")).text == "decline None"
        assert (await run(of, "book", answering(tmp_path), label="asking")).text == "cancel None"
        never_right = answering(tmp_path, *["x"] * 3)
        assert (await run(of, "book", never_right, label="asking")).text == "cancel None"


async def test_a_form_that_asks_for_a_secret_warns_where_it_does(tmp_path: Path) -> None:
    async with connected(tmp_path) as of:
        call = answering(tmp_path, "me", "decline")
        assert (await run(of, "link", call, label="asking")).text == "decline"
        (user, _), (key, _) = call.asked
        assert not user.startswith("Warning")
        assert key.startswith("Warning: this looks like a request for a password or another secret.")
        assert "sent to asking and stored in this conversation" in key


def test_a_field_that_asks_for_a_secret_is_known_by_its_words() -> None:
    fields = {
        "password": True,
        "userPassword": True,
        "api_key": True,
        "PIN": True,
        "access token": True,
        "credit card number": True,
        "passenger": False,
        "shipping": False,
        "keyboard": False,
        "tokenizer": False,
    }
    assert {name: FormField(name=name, kind="text").wants_secret for name in fields} == fields
    described = {name: f"Enter your {name} here" for name in fields}
    found = {
        name: FormField(name="x", kind="text", description=text).wants_secret
        for name, text in described.items()
    }
    assert found == fields


async def test_a_page_to_open_is_shown_and_only_an_explicit_answer_accepts(tmp_path: Path) -> None:
    async with connected(tmp_path) as of:
        opened = answering(tmp_path, "I've opened it")
        assert (await run(of, "pay", opened, label="asking", url=PAGE)).text == "accept"
        assert "open a page on pay.example.com:\nhttps://pay.example.com/a?b=c" in opened.asked[0][0]
        assert (
            await run(of, "pay", answering(tmp_path, "what?"), label="asking", url=PAGE)
        ).text == "decline"
        assert (await run(of, "pay", answering(tmp_path), label="asking", url=PAGE)).text == "cancel"
        for trick in (
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://good.com@evil.com/",
            "https://x\x1b[2K",
        ):
            call = answering(tmp_path, "I've opened it")
            assert "Holdfast can't show this" in (await run(of, "pay", call, label="asking", url=trick)).text
            assert not call.asked


async def test_a_server_is_told_of_the_workspace_if_that_is_wanted(tmp_path: Path, call: McpCall) -> None:
    async with connected(tmp_path, roots="workspace") as of:
        assert (await run(of, "roots", call, label="asking")).text == tmp_path.as_uri()
    async with connected(tmp_path) as of:
        assert not (await run(of, "roots", call, label="asking")).ok


async def test_structured_content_is_not_repeated_beside_equal_text(tmp_path: Path, call: McpCall) -> None:
    async with connected(tmp_path) as of:
        text = (await run(of, "structured", call, label="asking")).text
        assert text.count('"b"') == 1


@dataclass(kw_only=True)
class SilentCall(AnsweringCall):
    """A call whose person thinks for ever."""

    is_asked: asyncio.Event = field(default_factory=asyncio.Event)
    gave_up: bool = False

    @override
    async def ask(self, text: str, choices: tuple[str, ...]) -> str:
        self.is_asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.gave_up = True
        return "Yes"


async def test_a_server_that_asks_for_ever_is_answered_a_limited_number_of_times(tmp_path: Path) -> None:
    async with servers(raw(tools=["elicit"])) as of:
        call = answering(tmp_path, *["Yes"] * 200)
        said = (await run(of, "elicit", call, times=150)).text
        assert len(call.asked) == QUESTIONS_MAX
        assert (said.count('"accept"'), said.count('"cancel"')) == (QUESTIONS_MAX, 150 - QUESTIONS_MAX)
        assert call.asked[0][0].startswith("The MCP server raw asks: Sure 0?")


async def test_a_question_is_not_put_to_another_session(tmp_path: Path) -> None:
    async with servers(raw(tools=["elicit", "hang"])) as of:
        other = answering(tmp_path, "Yes")
        other.session_id = "session-2"
        hanging = asyncio.create_task((await named(of, tool="hang")).run({}, other))
        await other.hears("1")
        call = answering(tmp_path, "Yes")
        assert "can't tell which call this is for" in (await run(of, "elicit", call)).text
        assert not call.asked
        assert not other.asked
        hanging.cancel()
        await asyncio.wait([hanging])
        assert (await run(of, "elicit", call)).text == '["accept"]'


@ON_BOTH_LOOPS
async def test_a_stop_while_a_person_is_asked_leaves_nobody_waiting_for_the_answer(tmp_path: Path) -> None:
    async with servers(raw(tools=["elicit", "echo"])) as of:
        call = SilentCall(workspace=tmp_path)
        tool = await named(of, tool="elicit")
        running = asyncio.create_task(tool.run({}, call))
        await call.is_asked.wait()
        running.cancel()
        await asyncio.wait([running])
        assert call.gave_up
        assert (await run(of, "echo", call)).ok


async def test_the_deadline_of_a_call_stands_still_while_a_person_is_asked() -> None:
    timer, answered = CallTimer(), asyncio.Event()

    async def called() -> None:
        async with timer.until(timer.now_s() + 0.02):
            with timer.asking():
                await asyncio.sleep(0.1)
                answered.set()
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await called()
    assert answered.is_set()
