"""Every feature can be deleted: the rest works, and what the feature stored is kept for its return."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from features import absent
from holdfast import catalog
from holdfast.catalog import FEATURES, SHIPPED
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Script, SeenRequest, Wait
from holdfast.interfaces.feature import Feature
from runner.program import Program, configure, program
from serving import frames_in
from stores import SqliteStore
from tables import for_each_row

EVERY_DAY = {"name": "news", "prompt": "What's new?", "every": "1d"}
PLANNED = "planned"
STEPS = [{"text": "look"}, {"text": "act"}]
MEMORY = {"scope": "user", "text": "likes tea"}
SKILL = {
    "scope": "skills",
    "document": "notes",
    "text": "---\nname: notes\ndescription: Write notes.\n---\n\nLook.",
}


def script(request: SeenRequest) -> Script:
    """Answers at once, but a plan is made first if the person wants one."""
    body: dict[str, Any] = dict(request.body or {})
    last: dict[str, Any] = body["messages"][-1]
    is_plan = last["role"] == "user" and "plan" in str(last["content"])
    return [CallTool("update_plan", {"steps": STEPS})] if is_plan else [Say("ok")]


def without(feature: str, folder: Path) -> tuple[str, ...]:
    """The command that serves the folder without the feature."""
    return (sys.executable, absent.__file__, feature, "serve", "--config", str(folder / "holdfast.toml"))


def parts_of(feature: Feature) -> list[str]:
    """Every part that the feature names."""
    single = (
        *(feature.events, feature.folds, feature.run, feature.session_fields),
        *(feature.operations, feature.tools, feature.session_tools, feature.doctor),
        *(feature.configured, feature.work, feature.health, feature.models, feature.metrics),
        *(feature.opened, feature.can_undo, feature.recover, feature.upkeep, feature.user_commands),
        *(feature.terminal_proposals, feature.authorize, feature.store, feature.peers),
        feature.sessions_in_use,
    )
    several = (feature.frames, feature.routes, feature.owners, feature.commands, feature.issues)
    chats = (*feature.terminal_commands.values(), *feature.messenger_commands.values())
    parts = [part for parts in several for part in parts.values()]
    return [*filter(None, single), *parts, *(command.run for command in chats)]


@pytest.mark.parametrize("feature", FEATURES.values(), ids=FEATURES)
def test_every_part_that_a_feature_names_exists(feature: Feature) -> None:
    for part in parts_of(feature):
        assert feature.part(part) is not None


def test_all_shipped_features_are_here_and_come_after_those_they_require() -> None:
    assert list(FEATURES) == [one.name for one in SHIPPED]
    names = list(FEATURES)
    for feature in FEATURES.values():
        assert all(names.index(other) < names.index(feature.name) for other in feature.requires)


def with_dependants(name: str) -> set[str]:
    """The feature, and all that can't work without it."""
    gone = {name}
    for feature in FEATURES.values():  # those that are required come first
        if gone & set(feature.requires):
            gone.add(feature.name)
    return gone


async def works(server: Program, text: str = "hi", **more: Any) -> None:
    """A run ends as it should."""
    run_id = await server.start(text, **more)
    assert (await server.until(run_id, "run.ended")).data["outcome"] == "completed"


@pytest.mark.parametrize("name", [one.name for one in SHIPPED])
async def test_a_server_without_the_feature_runs_agents_and_keeps_what_it_stored(
    name: str, tmp_path: Path
) -> None:
    async with ChaosServer(choose=script) as chaos:
        configure(tmp_path, chaos.base_url, sandbox="off")
        async with program(tmp_path) as server:
            status, made = await server.call("POST", "/api/triggers", EVERY_DAY)
            assert status == 201
            await works(server)
            await works(server, "make a plan", session_id=PLANNED)
            for change in (MEMORY, SKILL):
                assert (await server.call("PUT", "/v1/memory", change))[0] == 200
            _, whole = await server.call("GET", "/v1/capabilities")
            assert whole["features"][name] is True
        async with program(tmp_path, command=without(name, tmp_path)) as server:
            await works(server)
            await works(server, "go on", session_id=PLANNED)
            _, rest = await server.call("GET", "/v1/capabilities")
            gone = {one for one in catalog.FEATURES if one not in rest["features"]}
            assert gone == with_dependants(name)
            _, listed = await server.call("GET", "/api/sessions")
            assert made["id"] not in [one["id"] for one in listed["data"]]
        async with program(tmp_path) as server:
            status, again = await server.call("GET", f"/api/triggers/{made['id']}")
            assert (status, again["name"]) == (200, "news")
            _, session = await server.call("GET", f"/api/sessions/{PLANNED}/messages")
            assert session["plan"]["steps"] == STEPS
            _, memories = await server.call("GET", "/v1/memory")
            assert memories["data"][0]["document"] == "likes tea"
            _, skill = await server.call("GET", "/v1/skills/notes")
            assert (skill["body"], skill["origin"]) == ("Look.", "learned")


async def test_agents_answer_on_the_openai_routes_without_the_relay(tmp_path: Path) -> None:
    async with ChaosServer(choose=script) as chaos:
        configure(tmp_path, chaos.base_url, sandbox="off")
        async with program(tmp_path, command=without("relay", tmp_path)) as server:
            asked: dict[str, Any] = {"model": "holdfast", "messages": [{"role": "user", "content": "hi"}]}
            status, chat = await server.call("POST", "/v1/chat/completions", asked)
            assert (status, chat["choices"][0]["message"]["content"]) == (200, "ok")
            _, models = await server.call("GET", "/v1/models")
            assert {one["owned_by"] for one in models["data"]} == {"holdfast"}
            status, refused = await server.call("POST", "/v1/chat/completions", asked | {"model": "chaos"})
            assert (status, refused["error"]["code"]) == (404, "model_not_found")
            status, _ = await server.call("POST", "/v1/messages", asked)
            assert status == 404


async def test_the_relay_serves_its_own_routes_without_those_of_openai(tmp_path: Path) -> None:
    async with ChaosServer(choose=script) as chaos:
        configure(tmp_path, chaos.base_url, sandbox="off")
        async with program(tmp_path, command=without("openai", tmp_path)) as server:
            asked = {"model": "main", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]}
            status, message = await server.call("POST", "/v1/messages", asked)
            assert (status, message["content"][0]["text"]) == (200, "ok")
            status, _ = await server.call("POST", "/v1/chat/completions", asked)
            assert status == 404


async def test_a_run_that_needs_an_absent_feature_is_refused_or_ends_with_its_name(tmp_path: Path) -> None:
    """P13: a run that may only read until its plan is accepted never goes on without plan mode."""
    async with ChaosServer(choose=script) as chaos:
        configure(tmp_path, chaos.base_url, sandbox="off")
        async with program(tmp_path) as server:
            run_id = await server.start("make a plan", plan_first=True)
            await server.until(run_id, "approval.asked")
        async with program(tmp_path, command=without("plans", tmp_path)) as server:
            ended = (await server.until(run_id, "run.ended")).data
            assert (ended["outcome"], ended["cause"]) == ("failed", "absent_feature")
            assert "the feature plans" in ended["failure"]["text"]
            status, refused = await server.call("POST", "/v1/runs", {"input": "reach it", "goal": True})
            assert (status, refused["error"]["param"]) == (400, "goal")
            assert "the feature plans" in refused["error"]["message"]


@for_each_row(
    "feature, toml, section",
    [
        ("mcp_client", '[[mcp_servers]]\nname = "files"\ncommand = ["files"]\n', "mcp_servers"),
        ("speech", '[speech]\ncommand = ["hear"]\n', "speech.is_on"),
        ("vision", '[agent]\nvision_target = "eye"\n', "agent.vision_target"),
        ("postgres", '[server]\nstore = "postgresql://localhost/holdfast"\n', "server.store"),
    ],
)
def test_configuring_an_absent_feature_is_an_error_that_names_it(
    feature: str, toml: str, section: str, tmp_path: Path
) -> None:
    file = tmp_path / "holdfast.toml"
    file.write_text(toml)
    words = (absent.__file__, feature, "config", "check", "--config", str(file))
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{section} needs the feature {feature}, which isn't installed" in done.stdout + done.stderr


async def test_sub_agents_deliver_their_results_without_the_feature_that_starts_them(tmp_path: Path) -> None:
    """P6, P14: the call that waits has an unknown outcome, and the session reads and continues as before."""
    gate = Gate()
    delegating = [
        CallTool("delegate", {"task": "a", "background": True}),
        CallTool("delegate", {"task": "b"}),
    ]

    def choose(request: SeenRequest) -> Script:
        body: dict[str, Any] = dict(request.body or {})
        last: dict[str, Any] = body["messages"][-1]
        if last["role"] == "user" and last["content"] == "go":
            return delegating
        return [Wait(gate), Say("slow")] if last["content"] in {"a", "b"} else [Say("ok")]

    async with ChaosServer(choose=choose) as chaos:
        configure(tmp_path, chaos.base_url, sandbox="off")
        async with program(tmp_path) as server:
            run_id = await server.start("go", session_id="parent")
            await gate.reached(2)
            server.process.kill()
        async with program(tmp_path, command=without("delegation", tmp_path)) as server:
            ended = (await server.until(run_id, "run.ended")).data
            assert ended["outcome"] == "completed"
            _, page = await server.call("GET", "/api/sessions/parent/messages")
            calls = {one["args"]["task"]: one for one in page["data"] if one.get("name") == "delegate"}
            assert calls["b"]["ending"] == "unknown"
            gate.open()
            results = [await told(server, child) for child in ("agent-1", "agent-2")]
            assert results == ["completed", "cancelled"]
            await works(server, "go on", session_id="parent")
            assert "delegate" not in str(dict(chaos.seen.requests[-1].body or {})["tools"])
        async with program(tmp_path) as server:
            _, tree = await server.call("GET", "/api/sessions/parent/children")
            assert [one["outcome"] for one in tree["data"]] == ["completed", "cancelled"]
            await works(server, "go on", session_id="parent")


async def told(server: Program, name: str) -> str:
    """The outcome of a sub-agent of the session `parent`, once that has it."""
    _, tree = await server.call("GET", "/api/sessions/parent/children")
    child_id = next(one["session_id"] for one in tree["data"] if one["name"] == name)
    async with server.http.get(f"{server.url}/api/sessions/parent/events") as answer:
        async for frame in frames_in(answer.content):
            if frame.data.get("type") == "child.ended" and frame.data["child_id"] == child_id:
                return frame.data["outcome"]
    raise AssertionError(f"{name} never ended")


async def test_a_session_with_an_unfinished_undo_waits_for_the_feature(tmp_path: Path) -> None:
    """P6, P13: no run works on files that are half restored. It can be stopped, and other sessions run."""
    async with ChaosServer(choose=script) as chaos:
        configure(tmp_path, chaos.base_url, sandbox="off")
        async with program(tmp_path) as server:
            await works(server, session_id="half")
        store = await SqliteStore.open(tmp_path / "data" / "holdfast.db")
        await store.put_note("undo/und_1", b'{"session_id": "half", "undo": {}, "node": ""}')
        await store.close()
        async with program(tmp_path, command=without("undo", tmp_path)) as server:
            run_id = await server.start("hi", session_id="half")
            await works(server)
            _, shown = await server.call("GET", f"/v1/runs/{run_id}")
            assert (shown["status"], shown.get("started_at")) == ("queued", None)
            assert "the feature undo" in shown["mark"]
            await server.call("POST", f"/v1/runs/{run_id}/stop")
            ended = (await server.until(run_id, "run.ended")).data
            assert (ended["outcome"], ended["cause"]) == ("cancelled", "user_stop")


async def test_snapshots_of_a_session_are_kept_while_their_feature_is_absent(tmp_path: Path) -> None:
    """P13: a run is undone after its feature was away, as far as the files are still as it left them."""
    edit = CallTool("write_file", {"path": "notes.txt", "content": "the agent's"})
    async with ChaosServer([edit], [Say("written")], [Say("ok")]) as chaos:
        configure(tmp_path, chaos.base_url, sandbox="off")
        notes = tmp_path / "work" / "notes.txt"
        await asyncio.to_thread(notes.write_text, "mine")
        async with program(tmp_path) as server:
            run_id = await server.start("write", session_id="s")
            await server.until(run_id, "run.ended")
        async with program(tmp_path, command=without("undo", tmp_path)) as server:
            await works(server, session_id="s")
            status, _ = await server.call("GET", f"/v1/runs/{run_id}/changes")
            assert status == 404
        async with program(tmp_path) as server:
            status, undone = await server.call("POST", f"/v1/runs/{run_id}/undo", {})
            assert (status, undone["files"]) == (200, ["notes.txt"])
        assert await asyncio.to_thread(notes.read_text) == "mine"


async def test_changes_of_skills_can_be_read_but_not_edited_without_the_feature(tmp_path: Path) -> None:
    """P12: no one can check the text of a skill."""
    async with ChaosServer(choose=script) as chaos:
        configure(tmp_path, chaos.base_url, sandbox="off")
        async with program(tmp_path) as server:
            assert (await server.call("PUT", "/v1/memory", SKILL))[0] == 200
        async with program(tmp_path, command=without("skills", tmp_path)) as server:
            status, refused = await server.call("PUT", "/v1/memory", SKILL | {"text": ""})
            assert (status, refused["error"]["param"]) == (400, "scope")
            assert "the feature skills" in refused["error"]["message"]
            _, found = await server.call("GET", "/v1/memory")
            assert [one["notes"] for one in found["data"] if one["scope"] == "skills"] == [
                {"notes": SKILL["text"]}
            ]
