"""An agent from holdfast.toml."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, ConfigurationError, PendingApproval
from holdfast.chaos import CallTool, ChaosServer, Say, SeenRequest
from holdfast.events import ToolEnded

CONFIG = """
[server]
data_dir = "{folder}/data"

[agent]
workspace = "{folder}"
instructions = "Answer in rhyme."

[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "m"
"""


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def configure(folder: Path, url: str) -> Path:
    file = folder / "mine.toml"
    file.write_text(CONFIG.format(folder=folder, url=url))
    return file


async def test_the_file_gives_models_tools_and_the_store(tmp_path: Path) -> None:
    scripts = [CallTool("add", {"a": 1, "b": 2})], [Say("3")], [Say("still 3")]
    async with ChaosServer(*scripts) as chaos:
        file = await asyncio.to_thread(configure, tmp_path, chaos.base_url)
        agent = await asyncio.to_thread(Agent.from_config, file, tools=[add])
        assert (await agent.run("1 + 2?", session="sums")).output == "3"
        again = await asyncio.to_thread(Agent.from_config, str(file))
        assert (await again.run("Sure?", session="sums")).output == "still 3"
        first, _, last = (_body(request) for request in chaos.seen.requests)
    assert "Answer in rhyme." in str(first)
    names = [tool["function"]["name"] for tool in first["tools"]]
    assert {"add", "shell", "read_file"} <= set(names)
    assert "ask_user" not in names
    assert "1 + 2?" in str(last["messages"])


def _body(request: SeenRequest) -> dict[str, Any]:
    return dict(request.body or {})


async def test_its_policy_asks_the_program(tmp_path: Path) -> None:
    """P8: what the policy would ask a person about goes to on_approval."""
    asked: list[str] = []

    async def no(approval: PendingApproval) -> bool:
        asked.append(approval.action.summary)
        return False

    script = [CallTool("write_file", {"path": "x.txt", "content": "hi"})]
    async with ChaosServer(script, [Say("as you wish")]) as chaos:
        file = await asyncio.to_thread(configure, tmp_path, chaos.base_url)
        agent = await asyncio.to_thread(Agent.from_config, file, on_approval=no)
        result = await agent.run("write it")
    assert [event.ok for event in result.events if isinstance(event, ToolEnded)] == [False]
    assert len(asked) == 1
    assert not await asyncio.to_thread((tmp_path / "x.txt").exists)


async def test_a_data_directory_in_use_and_a_bad_file_are_told(tmp_path: Path) -> None:
    """P12."""
    async with ChaosServer() as chaos:
        file = await asyncio.to_thread(configure, tmp_path, chaos.base_url)
        one = await asyncio.to_thread(Agent.from_config, file)
        other = await asyncio.to_thread(Agent.from_config, file)
        async with one:
            with pytest.raises(ConfigurationError, match="another Holdfast is using"):
                await other.run("hello")
    with pytest.raises(ConfigurationError, match="file not found"):
        await asyncio.to_thread(Agent.from_config, tmp_path / "nothing.toml")
    await asyncio.to_thread(file.write_text, "[server]\ndata_dri = 5\n")
    with pytest.raises(ConfigurationError, match="data_dri"):
        await asyncio.to_thread(Agent.from_config, file)
