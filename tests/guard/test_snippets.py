"""The snippets of docs/guard.md, run as they stand against the bad model server."""

import asyncio
import re
from typing import Any

import pytest

from docs.reading import DOCS, blocks
from holdfast import guard
from holdfast.chaos import ChaosServer, EndOfBody, Say

SNIPPETS = blocks(DOCS / "guard.md", "python")


@pytest.fixture
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(name, "k")


async def _run(mark: str) -> dict[str, Any]:
    (snippet,) = (each for each in SNIPPETS if mark in each)
    names: dict[str, Any] = {}
    # In a thread: whoever makes a client reads certificates from the disk.
    await asyncio.to_thread(exec, snippet, names)
    return names


@pytest.mark.usefixtures("_keys")
async def test_the_line_for_openai(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ChaosServer([Say("hello")]) as chaos:
        monkeypatch.setenv("OPENAI_BASE_URL", chaos.base_url)
        async with (await _run("= AsyncOpenAI("))["client"] as client:
            assert (await client.responses.create(model="m", input="hi")).output_text == "hello"


@pytest.mark.usefixtures("_keys")
async def test_the_line_for_anthropic(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ChaosServer([Say("hello")]) as chaos:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", chaos.url)
        async with (await _run("= AsyncAnthropic("))["client"] as client:
            said = [{"role": "user", "content": "hi"}]
            answer = await client.messages.create(model="m", max_tokens=9, messages=said)
            assert answer.content[0].text == "hello"


@pytest.mark.usefixtures("_keys")
async def test_the_lines_for_pydantic_ai(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ChaosServer([Say("hello")]) as chaos:
        monkeypatch.setenv("OPENAI_BASE_URL", chaos.base_url)
        names = await _run("Agent(")
        assert (await names["agent"].run("hi")).output == "hello"
        await names["provider"].client.close()


async def test_the_lines_for_a_client_of_ones_own() -> None:
    async with ChaosServer([Say("hello")]) as chaos, (await _run("GuardTransport("))["http_client"] as client:
        response = await client.post(f"{chaos.base_url}/responses", json={"model": "m"})
        assert response.status_code == 200


@pytest.mark.usefixtures("_keys")
async def test_the_lines_that_find_the_cause(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ChaosServer([Say("hel"), EndOfBody()]) as chaos:
        monkeypatch.setenv("OPENAI_BASE_URL", chaos.base_url)
        async with (await _run("= AsyncOpenAI("))["client"] as client:
            with pytest.raises(Exception, match="Connection error") as raised:
                await (await _run("cause_of(error)"))["ask"](client, "hi")
    assert isinstance(guard.cause_of(raised.value), guard.Dropped)
    assert "without its terminal marker" in capsys.readouterr().out


def test_every_parameter_is_in_the_table() -> None:
    named = re.findall(r"^\| `(\w+)` \| .+ \| .+ \|$", (DOCS / "guard.md").read_text("utf-8"), re.MULTILINE)
    assert [name for name in named if not name[0].isupper()] == list(guard.Rules.__annotations__)
