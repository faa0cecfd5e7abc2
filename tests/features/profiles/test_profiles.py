"""Profiles: what one of them has, no other has, on the API, in the terminal and as a model."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from forked import fork
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Script, SeenRequest, Wait
from runner.program import Program, program
from serving import frames_in

KEYS = {"": "key-of-the-main-server", "ada": "key-of-the-profile-ada", "bob": "key-of-the-profile-bob"}
MAIN = """
[server]
data_dir = "{folder}/data"
port = 0
api_keys = ["{key}"]
[agent]
title_target = "off"
workspace = "{folder}/work"
[sandbox]
mode = "off"
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "m"
api_key = "sk-of-the-main-target"
"""
PROFILE = """
[server]
api_keys = ["{key}"]
[agent]
identity = "file:soul.md"
title_target = "off"
workspace = "{folder}/work"
[sandbox]
mode = "off"
[[targets]]
name = "{name}s"
wire = "chat"
base_url = "{url}"
model = "model-of-{name}"
api_key = "sk-of-the-target-of-{name}"
"""
BOT = 'kind = "telegram"\ntoken = "{}-with-enough-characters"\nbase_url = "http://127.0.0.1:9"\n'
SECRETS = (
    *KEYS.values(),
    *("sk-of-the-main-target", "sk-of-the-target-of-ada", "sk-of-the-target-of-bob"),
)
REDACTED = "; ".join(["[redacted]"] * len(SECRETS))
MEMORY = {"scope": "user", "text": "Ada likes oolong."}
SKILL = {
    "scope": "skills",
    "document": "brewing",
    "text": "---\nname: brewing\ndescription: Brew oolong.\n---\n\nLook.",
}
AGENT = "---\ndescription: Reviews oolong.\n---\n\nSip first."


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration folder of a person with two profiles."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    (tmp_path / "work").mkdir()
    folder = tmp_path / ".config" / "holdfast"
    for name in ("ada", "bob"):
        (folder / "profiles" / name / "agents").mkdir(parents=True)
        (folder / "profiles" / name / "soul.md").write_text(f"You are {name}.")
    (folder / "profiles" / "ada" / "agents" / "taster.md").write_text(AGENT)
    return folder


@asynccontextmanager
async def serving(home: Path, folder: Path, url: str, *, own: str = "") -> AsyncGenerator[Program]:
    """A server with its profiles, once they're ready."""
    (folder / "holdfast.toml").write_text(MAIN.format(folder=folder, url=url, key=KEYS[""]) + own)
    for name in ("ada", "bob"):
        text = PROFILE.format(folder=folder, url=url, key=KEYS[name], name=name)
        (home / "profiles" / name / "holdfast.toml").write_text(text)
    async with program(folder) as server:
        for name in ("ada", "bob"):
            while (refused := await call(server, name, "GET", "/v1/models"))[0] != 200:
                # It opens, which no one is told of. From the first request on, it's only not ready.
                assert (refused[0], refused[1]["error"]["code"]) == (503, "profile_not_ready")
        yield server


async def call(server: Program, scope: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    """A request to a scope, with its key."""
    prefix = f"/p/{scope}" if scope else ""
    headers = {"Authorization": f"Bearer {KEYS[scope]}"}
    return await server.call(method, prefix + path, body, headers=headers)


async def ended(server: Program, scope: str, run_id: str, *, after: int = 0) -> Mapping[str, Any]:
    """The run's status once it has ended, or waits for an approval."""
    path = f"{server.url}/p/{scope or 'default'}/v1/runs/{run_id}/events?after={after}"
    async with server.http.get(path, headers={"Authorization": f"Bearer {KEYS[scope]}"}) as answer:
        async for frame in frames_in(answer.content):
            if frame.data["event"] in {"run.completed", "run.failed", "approval.request"}:
                return (await call(server, scope, "GET", f"/v1/runs/{run_id}"))[1] | {"seen": frame.id}
    raise AssertionError("it never ended")


async def ran(server: Program, scope: str, text: str, **fields: Any) -> Mapping[str, Any]:
    """The same of a new run."""
    status, started = await call(server, scope, "POST", "/v1/runs", {"input": text, **fields})
    assert status == 202, started
    return await ended(server, scope, started["run_id"])


def script(request: SeenRequest) -> Script:
    """Answers, or runs a command that needs approval, or says all keys."""
    body: Any = request.body
    last = body["messages"][-1]
    if last["content"] == "keys":
        return [Say("; ".join(SECRETS))]
    is_act = last["role"] == "user" and "act" in str(last["content"])
    return [CallTool("shell", {"command": "touch made-by-ada"})] if is_act else [Say("ok")]


def told(chaos: ChaosServer) -> str:
    """The newest request, as text."""
    return json.dumps(chaos.seen.requests[-1].body)


# Everything that ada has, as paths that must show nothing of it elsewhere.
PROBES = (
    "/api/sessions?all=true",
    "/api/sessions?q=xylophone",
    "/api/sessions/s",
    "/api/sessions/s/messages",
    "/api/sessions/s/draft",
    "/v1/runs",
    "/v1/runs/{run}",
    "/v1/runs/{run}/events?cursor=0",
    "/v1/approvals",
    "/v1/memory",
    "/v1/skills",
    "/v1/skills/brewing",
    "/v1/models",
    "/api/approvals/rules",
    "/api/triggers",
    "/api/jobs",
    "/api/keys",
    "/api/targets",
    "/api/model/options",
    "/api/usage",
)
OF_ADA = (
    *("xylophone", "oolong", "brewing", "taster", "made-by-ada"),
    *("news-of-ada", "laptop-of-ada", "model-of-ada"),
)


async def check_prefixes(server: Program) -> None:
    """Each profile has its key, and one that can't start doesn't hinder the others."""
    for key in ("bob", ""):
        headers = {"Authorization": f"Bearer {KEYS[key]}"}
        assert (await server.call("GET", "/p/ada/api/sessions", headers=headers))[0] == 401
    assert (await call(server, "", "GET", "/p/default/v1/models"))[0] == 200
    for unknown in ("/p/eve/v1/models", "/p/default/p/ada/v1/models"):
        status, refused = await call(server, "", "GET", unknown)
        assert (status, refused["error"]["code"]) == (404, "profile_not_found")

    status, refused = await call(server, "", "GET", "/p/dan/v1/models")
    assert (status, refused["error"]["code"]) == (503, "profile_not_ready")
    errors: dict[str, str] = {}
    while len(errors) < len(("dan", "fay", "gus")):  # each starts by itself
        failing = (await call(server, "", "GET", "/health/detailed"))[1]["failing_tasks"]
        errors = {one["name"]: one["error"] for one in failing}
    assert "server.prot is not a setting" in errors.pop("profile dan")
    same = (
        "the channel mine of the profile fay and the channel tg of the main configuration have the same bot"
    )
    assert same in errors.pop("profile fay")
    same = "the channel mine of the profile gus and the channel mine1 of the profile fay have the same bot"
    assert same in errors.pop("profile gus")
    assert errors == {}


async def check_models(server: Program, chaos: ChaosServer) -> None:
    """A key that can do everything reaches a profile by its name as a model."""
    _, key = await call(server, "", "POST", "/api/keys", {"name": "chatting", "scopes": ["chat"]})
    asked = {"model": "ada", "messages": [{"role": "user", "content": "hi"}]}
    chatting = {"Authorization": f"Bearer {key['key']}"}
    status, refused = await server.call("POST", "/v1/chat/completions", asked, headers=chatting)
    assert (status, refused["error"]["code"]) == (403, "profile_not_allowed")
    status, answer = await call(server, "", "POST", "/v1/chat/completions", asked)
    assert (status, answer["model"]) == (200, "model-of-ada")
    assert "Ada likes oolong." in told(chaos)
    _, listed = await call(server, "", "GET", "/api/sessions?all=true")
    assert [one["preview"] for one in listed["data"]] == [REDACTED, "act"]


async def test_nothing_of_a_profile_is_in_another_scope(home: Path, tmp_path: Path) -> None:
    """P11, P13: sessions, runs, memory, skills, agents, grants, triggers, keys and targets."""
    (home / "profiles" / "dan").mkdir()
    (home / "profiles" / "dan" / "holdfast.toml").write_text("[server]\nprot = 1\n")
    for name, bots in (("fay", ("bot-of-all", "bot-of-two")), ("gus", ("bot-of-two",))):
        (home / "profiles" / name).mkdir()
        tables = [
            f'[[channels]]\nname = "mine{nth or ""}"\n{BOT.format(bot)}' for nth, bot in enumerate(bots)
        ]
        (home / "profiles" / name / "holdfast.toml").write_text("\n".join(tables))
    own = f'[[channels]]\nname = "tg"\n{BOT.format("bot-of-all")}'
    async with (
        ChaosServer(choose=script) as chaos,
        serving(home, tmp_path, chaos.base_url, own=own) as server,
    ):
        run = await ran(server, "ada", "the xylophone", session_id="s")
        assert (run["output"], run["model"]) == ("ok", "model-of-ada")
        assert "You are ada." in told(chaos)
        for change in (MEMORY, SKILL):
            assert (await call(server, "ada", "PUT", "/v1/memory", change))[0] == 200
        draft = {"text": "a xylophone draft"}
        assert (await call(server, "ada", "PUT", "/api/sessions/s/draft", draft))[0] == 200
        news = {"name": "news-of-ada", "prompt": "What's new?", "every": "1d"}
        assert (await call(server, "ada", "POST", "/api/triggers", news))[0] == 201
        assert (await call(server, "ada", "POST", "/api/keys", {"name": "laptop-of-ada"}))[0] == 201

        asking = await ran(server, "ada", "act", session_id="t")
        assert asking["status"] == "waiting_for_approval"
        path = f"/v1/runs/{asking['run_id']}/approval"
        assert (await call(server, "ada", "POST", path, {"choice": "always"}))[0] == 200
        approved = await ended(server, "ada", asking["run_id"], after=asking["seen"])
        assert approved["status"] == "completed"
        assert (await ran(server, "ada", "act"))["status"] == "completed"

        found = ""
        for probe in PROBES:
            status, shown = await call(server, "ada", "GET", probe.format(run=run["run_id"]))
            assert status == 200, (probe, shown)
            found += json.dumps(shown)
        assert [word for word in OF_ADA if word not in found] == [], "the probes see what there is"
        for scope in ("bob", ""):
            for probe in PROBES:
                _, shown = await call(server, scope, "GET", probe.format(run=run["run_id"]))
                leaked = [word for word in OF_ADA if word in json.dumps(shown)]
                assert leaked == [], (scope, probe)
            assert (await ran(server, scope, "act"))["status"] == "waiting_for_approval"
            sent = told(chaos)
            assert ("You are bob." in sent) == (scope == "bob")
            assert [word for word in (*OF_ADA, "You are ada.") if word in sent] == []
            said = await ran(server, scope, "keys", session_id="keys")
            assert said["output"] == REDACTED
            _, stored = await call(server, scope, "GET", "/api/sessions/keys/messages")
            assert [secret for secret in SECRETS if secret in json.dumps(stored)] == []
        await check_prefixes(server)
        await check_models(server, chaos)


async def said(folder: Path, *words: str) -> str:
    """The output of a command."""
    process = await fork(*words, cwd=folder)
    out, error = await process.communicate()
    assert await process.wait() == 0, error.decode()
    return out.decode()


async def test_a_profile_is_chosen_on_the_command_line_and_survives_a_crash(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: the run continues in its profile."""
    gate = Gate()
    async with ChaosServer([Say("hal"), Wait(gate)], [Say("whole")]) as chaos:
        async with serving(home, tmp_path, chaos.base_url) as server:
            body = {"input": "hi", "session_id": "s"}
            run_id = (await call(server, "ada", "POST", "/v1/runs", body))[1]["run_id"]
            await gate.reached()
        async with serving(home, tmp_path, chaos.base_url) as server:
            assert (await ended(server, "ada", run_id))["output"] == "whole"
            config = ("--config", str(tmp_path / "holdfast.toml"))
            data = ("--data-dir", f"{tmp_path}/data/profiles/ada")
            assert " hi" in await said(tmp_path, "-p", "ada", "sessions", "list", *data)
            assert "hi" not in await said(tmp_path, "sessions", "list", *config)
        gate.open()
    assert [one["name"] for one in json.loads(await said(tmp_path, "profiles", "--json"))] == ["ada", "bob"]
    added = await said(tmp_path, "profiles", "add", "eve", *config)
    assert "holdfast -p eve" in added
    text = (home / "profiles" / "eve" / "holdfast.toml").read_text()
    assert 'model = "m"' in text
    assert 'identity = "file:soul.md"' in text
    checked = await said(tmp_path, "-p", "eve", "config", "check")
    assert f'data_dir = "{tmp_path}/.local/share/holdfast/profiles/eve"' in checked
    assert 'identity = "file:soul.md"' in checked
    monkeypatch.setenv("HOLDFAST_PROFILE", "eve")
    assert f'data_dir = "{tmp_path}/.local/share/holdfast/profiles/eve"' in await said(
        tmp_path, "config", "check"
    )
    assert "/profiles/" not in await said(tmp_path, "-p", "default", "config", "check")
