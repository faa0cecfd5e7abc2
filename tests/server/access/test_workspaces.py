"""Folders that a key can choose as a workspace, at every endpoint that takes one."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.api.operations import OPERATIONS
from holdfast.chaos import ChaosServer
from server.access.test_scopes import LOCKED, OWNER, made
from serving import served, target_of

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
    }


async def test_a_key_without_admin_chooses_only_folders_that_the_operator_allows(tmp_path: Path) -> None:
    """P11, P13: at no endpoint does a folder get in, directly or by a link; allowed ones do everywhere."""
    own, listed, outside = (tmp_path / name for name in ("own", "listed", "outside"))
    for folder in (own / "sub", listed / "sub", outside):
        folder.mkdir(parents=True)
    (own / "link").symlink_to(outside)
    options = replace(LOCKED.options, workspaces=(listed,))
    setting = replace(LOCKED, workspace=own, options=options)
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
