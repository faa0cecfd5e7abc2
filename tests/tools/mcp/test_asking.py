"""Servers that ask for something while a tool runs."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest

from holdfast.tools.mcp.servers import McpServerConfig, McpServers, ServerPlace
from tools.mcp.asking import answering, asking_server, serving_sdk
from tools.mcp.scene import ENVIRONMENT, QUICK, McpCall, run

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


async def test_a_page_to_open_is_shown_and_only_an_explicit_answer_accepts(tmp_path: Path) -> None:
    async with connected(tmp_path) as of:
        opened = answering(tmp_path, "I have opened it")
        assert (await run(of, "pay", opened, label="asking", url=PAGE)).text == "accept"
        assert "open a page of pay.example.com:\nhttps://pay.example.com/a?b=c" in opened.asked[0][0]
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
            call = answering(tmp_path, "I have opened it")
            assert "Holdfast cannot show this" in (await run(of, "pay", call, label="asking", url=trick)).text
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
