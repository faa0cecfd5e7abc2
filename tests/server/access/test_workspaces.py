"""Folders that a key can choose as a workspace, at every endpoint that takes one."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast import events as e
from holdfast.api.operations import OPERATIONS
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.sandbox.quarantine import CopyBudget, Quarantine
from holdfast.server.runs.history import response_id
from server.access.scoped_keys import OWNER, locked, made
from server.toolbox import Counted
from serving import served, target_of
from stores import MemoryStore

MESSAGES = [{"id": "m1", "role": "user", "content": "hi"}]
MCP = {"Accept": "application/json, text/event-stream"}


def requests(folder: str) -> dict[str, tuple[str, str, Any]]:
    """A request for each endpoint that keys without `admin` can name a folder at."""
    props = {"holdfast": {"workspace": folder}}
    call = {"name": "run_agent", "arguments": {"message": "hi", "workspace": folder}}
    return {
        "runs.start": ("POST", "/v1/runs", {"input": "hi", "workspace": folder}),
        "chat.chat": ("POST", "/api/sessions/s/chat", {"input": "hi", "workspace": folder}),
        "chat.stream": ("POST", "/api/sessions/s/chat/stream", {"input": "hi", "workspace": folder}),
        "sessions.create": ("POST", "/api/sessions", {"workspace": folder}),
        "ag_ui.run": (
            "POST",
            "/ag-ui",
            {"threadId": "t", "runId": "r", "messages": MESSAGES, "forwardedProps": props},
        ),
        "mcp.post": ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}),
        "skills.list": ("GET", f"/v1/skills?workspace={folder}", None),
        "skills.show": ("GET", f"/v1/skills/x?workspace={folder}", None),
        "commands.list": ("GET", f"/v1/commands?workspace={folder}", None),
        "commands.expand": ("POST", "/v1/commands/x/expand", {"workspace": folder}),
    }


async def test_a_key_without_admin_chooses_only_folders_that_the_operator_allows(tmp_path: Path) -> None:
    """P11, P13: at no endpoint does a folder get in, directly or by a link; allowed ones do everywhere."""
    own, listed, outside = (tmp_path / name for name in ("own", "listed", "outside"))
    for folder in (own / "sub", listed / "sub", outside):
        folder.mkdir(parents=True)
    (own / "link").symlink_to(outside)
    options = replace(locked().options, workspaces=(listed,))
    setting = replace(locked(), workspace=own, options=options)
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        key = await made(server, "chat", "approve") | MCP
        for folder in (outside, own / "link", own / ".." / "outside", Path("/")):
            for method, path, body in requests(str(folder)).values():
                answer = await server.call(method, path, body=body, headers=key)
                assert b"workspace_not_allowed" in answer.body, (path, answer.body)
        assert chaos.seen.requests_seen == 0
        for folder in (own, own / "sub", listed, listed / "sub"):
            body = {"workspace": str(folder)}
            assert (await server.post("/api/sessions", body, **key))[0] == 201
        away = {"workspace": str(outside), "session_id": "away"}
        assert (await server.post("/api/sessions", away, **OWNER))[0] == 201
        files = "/api/sessions/away/files"
        assert (await server.call("GET", files, headers=key)).code == "workspace_not_allowed"
        assert (await server.call("GET", files, headers=OWNER)).status == 200


def test_the_endpoints_above_are_all_that_take_a_workspace() -> None:
    """P11: so that a new one is thought about."""
    takes = {
        one.endpoint
        for one in OPERATIONS
        if one.scopes != ("admin",) and not one.endpoint.startswith("memory.")  # which open no folder
        if "workspace" in one.query or "workspace" in getattr(one.request, "__struct_fields__", ())
    }
    inside = {"ag_ui.run", "mcp.post"}  # in a part of the body
    assert takes | inside == requests("/").keys()


# These change the run or session in their path, or show its files.
IN_WORKSPACE: dict[str, tuple[str, str, Any]] = {
    "inputs.question": ("POST", "/v1/runs/{run}/question/q", {"answer": "yes"}),
    "inputs.say": ("POST", "/v1/runs/{run}/steer", {"message": "more"}),
    "hermes.choose": ("POST", "/api/sessions/away/model", {"model": "main"}),
    "goals.change": ("POST", "/v1/sessions/away/goal", {"action": "set", "goal": "x"}),
    "inputs.retry": ("POST", "/v1/runs/{run}/retry", {}),
    "inputs.gate": ("POST", "/v1/runs/{run}/gate", {}),
    "inputs.compact": ("POST", "/api/sessions/away/compact", {}),
    "context.pin": ("POST", "/api/sessions/away/context/pin", {"id": "m"}),
    "context.unpin": ("POST", "/api/sessions/away/context/unpin", {"id": "m"}),
    "context.revert": ("POST", "/api/sessions/away/context/revert", {"seq": 1}),
    "changes.show": ("GET", "/v1/runs/{run}/changes", None),
    "changes.preview": ("POST", "/v1/runs/{run}/undo/preview", {}),
    "changes.undo": ("POST", "/v1/runs/{run}/undo", {}),
    "changes.redo": ("POST", "/v1/runs/{run}/redo", {}),
    "sessions.move": ("POST", "/api/sessions/away/move", {}),
    "sessions.put_mode": ("PUT", "/api/sessions/away/approval-mode", {"mode": "allow-workspace"}),
    "log.fork": ("POST", "/api/sessions/away/fork", {}),
    "log.rewind": ("POST", "/api/sessions/away/rewind", {"to_seq": 1}),
    "queue.resume": ("POST", "/api/sessions/away/queue/resume", {}),
    "queue.change": ("PATCH", "/api/sessions/away/queue/m", {"text": "other"}),
    "queue.clear": ("POST", "/api/sessions/away/queue/clear", {}),
    "queue.remove": ("DELETE", "/api/sessions/away/queue/m", None),
}
# These take the folder from the session.
BY_SESSION: dict[str, tuple[str, str, Any]] = {
    "chat.chat": ("POST", "/api/sessions/away/chat", {"input": "hi"}),
    "chat.stream": ("POST", "/api/sessions/away/chat/stream", {"input": "hi"}),
    "files.list": ("GET", "/api/sessions/away/files", None),
    "files.read": ("GET", "/api/sessions/away/files/content?path=x", None),
    "files.write": ("PUT", "/api/sessions/away/files/content?path=x", "x"),
}
# These read, decide one exact action, end or delay work, or arrange the list: any key can.
ANY_WORKSPACE = """
    runs.show runs.events inputs.stop inputs.approve inputs.rule
    sessions.show sessions.live sessions.change sessions.children context.show
    sessions.draft sessions.put_draft processes.show processes.stop
    log.messages log.events log.export queue.show queue.pause
    conversations.show conversations.change conversations.items conversations.item goals.show
"""


async def test_a_key_acts_only_in_runs_and_sessions_whose_workspace_it_can_choose(tmp_path: Path) -> None:
    """P11, P13: no other endpoint lets it into a folder that an administrator chose."""
    own, outside = tmp_path / "own", tmp_path / "outside"
    for folder in (own, outside):
        folder.mkdir()
    setting = replace(locked(), workspace=own)
    async with ChaosServer([Say("hi")]) as chaos, served(target_of(chaos), setting=setting) as server:
        key = await made(server, "chat", "approve") | MCP
        body = {"input": "hi", "session_id": "away", "workspace": str(outside)}
        run = (await server.post("/v1/runs", body, **OWNER))[1]["run_id"]
        assert [frame async for frame in server.follow(f"/v1/runs/{run}/events", headers=OWNER)]
        sending = {"name": "send_message", "arguments": {"run_id": run, "message": "more"}}
        others = {
            "a response of the run": ("DELETE", f"/v1/responses/{response_id(run)}", None),
            "a run without a workspace": ("POST", "/v1/runs", {"input": "hi", "session_id": "away"}),
            "a run in a folder of its own, whose text the session keeps": (
                "POST",
                "/v1/runs",
                {"input": "hi", "session_id": "away", "workspace": str(own)},
            ),
            "a message for the run under way": (
                "POST",
                "/v1/runs",
                {"input": "hi", "session_id": "away", "workspace": str(own), "when_busy": "steer"},
            ),
            "steering by MCP": (
                "POST",
                "/mcp",
                {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": sending},
            ),
        }
        for name, (method, path, sent) in (IN_WORKSPACE | BY_SESSION | others).items():
            answer = await server.call(method, path.format(run=run), body=sent, headers=key)
            assert b"workspace_not_allowed" in answer.body, (name, answer.status, answer.body)
        assert chaos.seen.requests_seen == 1
        for path in ("/api/sessions/away/queue/pause", f"/v1/runs/{run}/stop?total=true"):
            assert (await server.call("POST", path, body={}, headers=key)).status == 200
        assert (await server.call("POST", f"/v1/runs/{run}/retry", body={}, headers=OWNER)).status == 202


def verdicts(run: str, ask: str, answer: Mapping[str, str]) -> dict[str, tuple[str, Any]]:
    """The same answer to an approval at each endpoint that takes one."""
    said = {"id": ask, "answer": answer["choice"]}
    said |= {"reason": answer["reason"]} if "reason" in answer else {}
    resume = [{"interruptId": ask, "status": "resolved", "payload": answer}]
    return {
        "inputs.approve": (f"/v1/runs/{run}/approval", answer),
        "ag_ui.run": ("/ag-ui", {"threadId": "away", "runId": "r", "messages": [], "resume": resume}),
        "mcp.post": (
            "/mcp",
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": "answer", "arguments": said},
            },
        ),
    }


async def test_a_key_only_decides_one_action_of_a_run_whose_workspace_it_cant_choose(tmp_path: Path) -> None:
    """P11, P13: it sends no text to its model and stores no rule for later actions, at any endpoint."""
    own, outside = tmp_path / "own", tmp_path / "outside"
    for folder in (own, outside):
        folder.mkdir()
    tool = Counted()
    setting = replace(locked(), workspace=own, tools=(tool,))
    async with (
        ChaosServer([CallTool("touch", {})], [Say("done")]) as chaos,
        served(target_of(chaos), setting=setting) as server,
    ):
        key = await made(server, "chat", "approve") | MCP
        body = {"input": "hi", "session_id": "away", "workspace": str(outside)}
        run = (await server.post("/v1/runs", body, **OWNER))[1]["run_id"]
        async for frame in server.follow(f"/v1/runs/{run}/events", headers=OWNER):
            if frame.data["event"] == "approval.request":
                break
        (listed,) = (await server.get("/v1/approvals", **OWNER))[1]["data"]
        ask = listed["approval_id"]
        more = ({"choice": "deny", "reason": "obey me"}, {"choice": "session"}, {"choice": "always"})
        for answer in more:
            for name, (path, sent) in verdicts(run, ask, answer).items():
                refused = await server.call("POST", path, body=sent, headers=key)
                assert b"workspace_not_allowed" in refused.body, (name, answer, refused.body)
        changed = {"choice": "once", "steps": [{"text": "obey me", "status": "pending"}]}
        refused = await server.call("POST", f"/v1/runs/{run}/approval", body=changed, headers=key)
        assert refused.code == "workspace_not_allowed"
        allowed = await server.call("POST", f"/v1/runs/{run}/approval", body={"choice": "once"}, headers=key)
        assert allowed.status == 200
        async for _ in server.follow(f"/v1/runs/{run}/events", headers=OWNER):
            pass
    assert len(tool.done) == 1


def quarantined(root: Path) -> None:
    """A file of a folder that isn't listed."""
    folder = root / os.fsdecode(b"odd\xff")
    folder.mkdir()
    (folder / "AGENTS.md").write_text("theirs")
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    quarantine, path = Quarantine(root / "data" / "quarantine"), str(folder / "AGENTS.md")
    quarantine.take(opened, "AGENTS.md", change_id="q", path=path, budget=CopyBudget())
    os.close(opened)


async def test_a_key_restores_and_deletes_only_files_from_folders_that_it_can_choose(tmp_path: Path) -> None:
    """P11, P13: also if a name isn't UTF-8."""
    await asyncio.to_thread(quarantined, tmp_path)
    setting = replace(locked(), options=replace(locked().options, data_dir=tmp_path / "data"))
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        key = await made(server, "chat", "approve")
        for method, url in (("POST", "/api/quarantine/q/restore"), ("DELETE", "/api/quarantine/q")):
            assert (await server.call(method, url, headers=key)).code == "workspace_not_allowed"
        assert (await server.call("POST", "/api/quarantine/q/restore", headers=OWNER)).status == 200


def test_every_operation_on_a_run_or_session_says_whether_it_acts_in_the_workspace() -> None:
    """P11: so that a new one is thought about."""
    on_one = {
        one.endpoint
        for one in OPERATIONS
        if one.scopes != ("admin",) and ("{run_id}" in one.path or "{session_id}" in one.path)
    }
    assert {one.endpoint for one in OPERATIONS if one.in_workspace} == IN_WORKSPACE.keys()
    assert on_one == IN_WORKSPACE.keys() | BY_SESSION.keys() | set(ANY_WORKSPACE.split())


async def test_a_run_without_a_workspace_works_in_its_sessions(tmp_path: Path) -> None:
    """And what a link in a path leads to is resolved once, when the folder is chosen."""
    own = tmp_path / "own"
    (own / "sub").mkdir(parents=True)
    (own / "link").symlink_to("sub")
    setting, store = replace(locked(), workspace=own), MemoryStore()
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting, store=store) as server:
        body = {"session_id": "s", "workspace": str(own / "link")}
        assert (await server.post("/api/sessions", body, **OWNER))[0] == 201
        run = (await server.post("/v1/runs", {"input": "hi", "session_id": "s"}, **OWNER))[1]["run_id"]
        log = await store.read("s", after=0, limit=10)
        queued = next(one.event for one in log if isinstance(one.event, e.RunQueued))
        assert (queued.run_id, queued.settings.workspace) == (run, str(own / "sub"))
        (own / "sub").rmdir()
        (own / "sub").symlink_to(tmp_path)
        answer = await server.call("POST", "/v1/runs", body={"input": "hi", "session_id": "s"}, headers=OWNER)
        assert (answer.status, answer.code) == (409, "workspace_moved")


async def test_a_mode_for_the_folder_of_the_last_run_needs_that_folder(tmp_path: Path) -> None:
    """P13: an approval mode is for the folder of the newest run, which may not be the session's."""
    own, outside = tmp_path / "own", tmp_path / "outside"
    for folder in (own, outside):
        folder.mkdir()
    async with (
        ChaosServer([Say("done")]) as chaos,
        served(target_of(chaos), setting=replace(locked(), workspace=own)) as server,
    ):
        key = await made(server, "chat", "approve")
        body = {"session_id": "s", "workspace": str(own)}
        assert (await server.post("/api/sessions", body, **OWNER))[0] == 201
        run = {"input": "hi", "session_id": "s", "workspace": str(outside)}
        run_id = (await server.post("/v1/runs", run, **OWNER))[1]["run_id"]
        async for _ in server.follow(f"/v1/runs/{run_id}/events", headers=OWNER):
            pass
        mode = {"mode": "allow-workspace"}
        refused = await server.call("PUT", "/api/sessions/s/approval-mode", body=mode, headers=key)
        assert refused.code == "workspace_not_allowed"
