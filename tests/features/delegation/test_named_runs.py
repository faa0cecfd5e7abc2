"""Runs of named agents: over HTTP, by a mention, as a model, as a sub-agent, and after a restart."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from features.delegation.agent_files import REVIEWER, put
from holdfast.agent.policy import ConfiguredJudge
from holdfast.chaos import CallTool, ChaosServer, Gate, Hang, Say, Script, Wait
from holdfast.features.delegation.agents import AgentLibrary
from holdfast.features.delegation.tools import child_tools
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.edits import WriteFile
from holdfast.tools.files.read_file import ReadFile
from serving import Served, Setting, served, target_of
from stores import MemoryStore

WRITER = "---\ndescription: Writes.\n---\n\nWrite well."
WRITE = CallTool("write_file", {"path": "new.txt", "content": "x"})


@asynccontextmanager
async def world(
    chaos: ChaosServer, folder: Path, *, disk: MemoryDisk | None = None
) -> AsyncGenerator[tuple[Served, AgentLibrary]]:
    """A server with the agents of a folder, and a workspace in it."""
    library, work = AgentLibrary(folder / "home"), folder / "work"
    await asyncio.to_thread(work.mkdir, exist_ok=True)
    setting = Setting(
        store=MemoryStore(disk or MemoryDisk()),
        tools=(ReadFile(FilesSeen()), WriteFile(FilesSeen()), *child_tools()),
        judge=ConfiguredJudge(mode="workspace", home=folder / "home"),
        features={"delegation": library},
        workspace=work,
    )
    async with served(target_of(chaos), setting=setting) as server:
        yield server, library


def own(folder: Path, name: str, text: str) -> None:
    put(folder / "home" / "agents", f"{name}.md", text)


def system_of(request: Any) -> str:
    return str([one["content"] for one in request.body["messages"] if one["role"] == "system"])


def tools_of(request: Any) -> dict[str, Any]:
    return {one["function"]["name"]: one["function"] for one in request.body.get("tools", ())}


async def test_a_run_gets_the_settings_of_its_agent_and_keeps_them_when_it_is_resumed(tmp_path: Path) -> None:
    """P6, P13: also if the file has changed since. In plan mode nothing is written, whatever is allowed."""
    gate, disk = Gate(), MemoryDisk()
    text = REVIEWER.replace("model: fast\n", "").replace("tools: [read_file, search_files]\n", "")
    own(tmp_path, "reviewer", text)
    async with ChaosServer([Wait(gate), Hang()], [WRITE], [Say("done")]) as chaos:
        async with world(chaos, tmp_path, disk=disk) as (server, _):
            run_id = await server.start("review", agent="reviewer")
            await gate.reached()
        own(tmp_path, "reviewer", "---\ndescription: x\n---\nBe lax.")
        async with world(chaos, tmp_path, disk=disk) as (server, _):
            shown = await server.ended(run_id)
    assert (shown["agent"], shown["output"]) == ("reviewer", "done")
    assert not (tmp_path / "work" / "new.txt").exists()
    assert all("Be strict." in system_of(one) and "lax" not in system_of(one) for one in chaos.seen.requests)


async def test_a_message_in_a_chat_mentions_an_agent_and_other_names_stay_text(tmp_path: Path) -> None:
    own(tmp_path, "writer", WRITER)
    async with ChaosServer(choose=lambda _: [Say("ok")]) as chaos, world(chaos, tmp_path) as (server, _):
        agents = [
            (await server.ended(await server.start(text, origin=origin, **more))).get("agent", "")
            for text, origin, more in (
                ("@writer a poem", "page", {}),
                ("@writer a poem", "chat", {"agent": "writer"}),
                ("@nobody a poem", "chat", {}),
                ("@nobody a poem", "chat", {"agent": "writer"}),
                ("@writer", "chat", {}),
                ("@writer a poem", "api", {}),
            )
        ]
    assert agents == ["writer", "writer", "", "writer", "", ""]
    assert "@writer a poem" in str(chaos.seen.requests[0].body)


async def test_a_mention_during_a_run_gets_a_run_after_it(tmp_path: Path) -> None:
    """P13: steered into the active run, it would work with that run's tools and mode."""
    own(tmp_path, "writer", WRITER)
    gate = Gate()
    async with (
        ChaosServer([Wait(gate), Say("first")], [Say("second")]) as chaos,
        world(chaos, tmp_path) as (server, _),
    ):
        first = await server.start("hi", session_id="s", origin="chat")
        await gate.reached()
        second = await server.start("@writer go", session_id="s", origin="chat", when_busy="steer")
        assert second != first
        gate.open()
        assert (await server.ended(second))["output"] == "second"
    assert "Write well." in system_of(chaos.seen.requests[1])


async def test_a_model_of_the_openai_api_is_one_of_the_users_own_agents(tmp_path: Path) -> None:
    """P13: a trusted agent of the workspace is for people alone."""
    own(tmp_path, "writer", WRITER)
    file = put(tmp_path / "work" / ".holdfast" / "agents", "reviewer.md", REVIEWER)
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
    async with (
        ChaosServer(choose=lambda _: [Say("ok")]) as chaos,
        world(chaos, tmp_path) as (server, library),
    ):
        await asyncio.to_thread(library.trust, file)
        done = await server.call("POST", "/v1/chat/completions", body=asked | {"model": "writer"})
        assert done.status == 200
        assert "Write well." in system_of(chaos.seen.requests[-1])
        done = await server.call("POST", "/v1/responses", body={"input": "hi", "model": "writer"})
        assert done.status == 200
        assert "Write well." in system_of(chaos.seen.requests[-1])
        done = await server.call("POST", "/v1/chat/completions", body=asked | {"model": "reviewer"})
        assert (done.status, done.json["error"]["code"]) == (404, "model_not_found")
        assert "writer" in done.json["error"]["message"]
        _, models = await server.get("/v1/models")
        assert ("writer", "holdfast") in {(model["id"], model["owned_by"]) for model in models["data"]}
        assert (await server.get("/v1/models/writer"))[0] == 200
        status, refused = await server.post("/v1/runs", {"input": "hi", "agent": "reviewer"})
        assert (status, refused["error"]["code"]) == (400, "agent_not_found")
        run_id = await server.start("hi", agent="reviewer", origin="run")
        assert (await server.ended(run_id))["agent"] == "reviewer"


async def test_an_agent_that_isnt_trusted_is_refused_with_the_command_to_trust_it(tmp_path: Path) -> None:
    """P12, P13: nothing is started or stored."""
    file = put(tmp_path / "work" / ".holdfast" / "agents", "reviewer.md", REVIEWER)
    async with ChaosServer(choose=lambda _: [Say("ok")]) as chaos, world(chaos, tmp_path) as (server, _):
        for body in (
            {"input": "@reviewer hi", "origin": "page"},
            {"input": "hi", "agent": "reviewer", "origin": "run"},
        ):
            status, refused = await server.post("/v1/runs", body)
            assert (status, refused["error"]["code"]) == (400, "agent_unusable")
            assert f"holdfast agents trust {file}" in refused["error"]["message"]
        assert (await server.get("/api/sessions"))[1]["data"] == []


async def test_delegate_lists_agents_only_if_there_are_any_and_a_sub_agent_is_one_of_them(
    tmp_path: Path,
) -> None:
    """P13: the sub-agent has the tools that both have, and the stricter mode."""
    task = {"task": "look", "agent": "reviewer"}

    def choose(request: Any) -> Script:
        last = request.body["messages"][-1]
        if last["content"] == "look":
            return [WRITE]
        return [CallTool("delegate", task)] if last["content"] == "go" else [Say("ok")]

    async with ChaosServer(choose=choose) as chaos, world(chaos, tmp_path) as (server, _):
        await server.ended(await server.start("hi", session_id="s"))
        plain = tools_of(chaos.seen.requests[0])["delegate"]
        assert "agent" not in plain["parameters"]["properties"]
        own(tmp_path, "reviewer", REVIEWER.replace("model: fast\n", ""))
        await server.ended(await server.start("go", session_id="s"))
    _, first, *of_child, last = chaos.seen.requests
    listing = tools_of(first)["delegate"]
    assert listing["description"].startswith(plain["description"])
    assert listing["description"].endswith("- reviewer: Reviews changes.")
    assert listing["parameters"]["properties"]["agent"]["enum"] == ["reviewer"]
    assert list(tools_of(of_child[0])) == ["read_file"]
    assert "Be strict." in system_of(of_child[0])
    assert tools_of(last)["delegate"] == listing
    assert not (tmp_path / "work" / "new.txt").exists()
