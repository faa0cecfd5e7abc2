"""A session's permission mode over HTTP: who can set which, and where it's shown."""

from typing import Any

from msgspec.structs import replace

from holdfast.chaos import ChaosServer, Say
from server.access.scoped_keys import OWNER, locked, made
from serving import AsksAbout, Served, Setting, served, target_of

MODE = "/api/sessions/s/approval-mode"


async def put(server: Served, mode: str, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    answer = await server.call("PUT", MODE, body={"mode": mode}, headers=headers)
    return answer.status, answer.json if answer.status == 200 else {"code": answer.code}


async def shown_mode(server: Served) -> str:
    status, page = await server.get("/api/sessions/s/messages", **OWNER)
    assert status == 200
    return page["permission_mode"]


async def test_a_key_sets_the_modes_that_its_scopes_and_mode_max_allow() -> None:
    """P8, P13: an added key can't make a session ask less than the configuration says."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=locked()) as server:
        assert (await server.post("/api/sessions", {"session_id": "s"}, **OWNER))[0] == 201
        approver, talker = await made(server, "chat", "approve"), await made(server, "chat")
        assert await shown_mode(server) == "ask"
        for mode in ("plan", "ask", "edits", "workspace", "unattended"):
            assert await put(server, mode, OWNER) == (200, {"mode": mode})
            assert await shown_mode(server) == mode
            refused = (403, {"code": "mode_not_allowed"})
            allowed = mode in {"plan", "ask", "unattended"}
            assert await put(server, mode, approver) == ((200, {"mode": mode}) if allowed else refused)
            missing = (403, {"code": "missing_scope"})
            assert await put(server, mode, talker) == ((200, {"mode": mode}) if mode == "plan" else missing)
        assert await put(server, "yolo", OWNER) == (400, {"code": "invalid_request"})
        for headers, modes in (
            (OWNER, ["plan", "unattended", "ask", "edits", "workspace"]),
            (approver, ["plan", "unattended", "ask"]),
            (talker, ["plan"]),
        ):
            _, shown = await server.get("/v1/capabilities", **headers)
            assert shown["permission_modes"] == {"mode": "ask", "allowed": modes}


async def test_mode_max_limits_the_configured_mode_too() -> None:
    """P13: an empty mode is the configured one, which may ask less than an added key can choose."""
    setting = replace(locked(), judge=AsksAbout(mode="workspace"))
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        assert (await server.post("/api/sessions", {"session_id": "s"}, **OWNER))[0] == 201
        approver = await made(server, "chat", "approve")
        assert await put(server, "ask", approver) == (200, {"mode": "ask"})
        assert await put(server, "", approver) == (403, {"code": "mode_not_allowed"})
        assert await put(server, "", OWNER) == (200, {"mode": ""})
        assert await shown_mode(server) == "workspace"


async def test_mode_max_is_a_setting() -> None:
    setting = locked()
    setting = replace(setting, options=replace(setting.options, mode_max="edits"))
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        assert (await server.post("/api/sessions", {"session_id": "s"}, **OWNER))[0] == 201
        approver = await made(server, "approve")
        assert await put(server, "edits", approver) == (200, {"mode": "edits"})
        assert await put(server, "workspace", approver) == (403, {"code": "mode_not_allowed"})


async def test_the_old_name_of_a_mode_is_accepted() -> None:
    async with ChaosServer() as chaos, served(target_of(chaos), setting=locked()) as server:
        assert (await server.post("/api/sessions", {"session_id": "s"}, **OWNER))[0] == 201
        assert await put(server, "allow-workspace", OWNER) == (200, {"mode": "allow-workspace"})
        assert await shown_mode(server) == "workspace"
        approver = await made(server, "approve")
        assert await put(server, "allow-workspace", approver) == (403, {"code": "mode_not_allowed"})


async def test_a_message_sets_the_mode_with_its_run_or_not_at_all() -> None:
    """P2, P13: the mode is on the log before the message; a text that asks for a mode sets none."""
    async with (
        ChaosServer([Say("a")], [Say("b")]) as chaos,
        served(target_of(chaos), setting=locked()) as server,
    ):
        talker = await made(server, "chat")
        body = {"input": "hi", "session_id": "s", "permission_mode": "edits"}
        status, answer = await server.post("/v1/runs", body, **talker)
        assert (status, answer["error"]["code"]) == (403, "missing_scope")
        assert (await server.call("GET", "/api/sessions/s", headers=OWNER)).status == 404
        assert (await server.post("/v1/runs", body, **OWNER))[0] == 202
        assert await shown_mode(server) == "edits"
        _, log = await server.get("/api/sessions/s/events?limit=10", **OWNER)
        kinds = [event["type"] for event in log["events"]]
        assert kinds[:3] == ["session.created", "session.mode_set/2", "message.accepted"]
        text = {"input": "permission_mode: workspace", "session_id": "s"}
        assert (await server.post("/v1/runs", text, **OWNER))[0] == 202
        assert await shown_mode(server) == "edits"


async def test_a_server_without_keys_is_its_owners() -> None:
    setting = Setting(judge=AsksAbout())
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        assert (await server.post("/api/sessions", {"session_id": "s"}))[0] == 201
        assert await put(server, "workspace", {}) == (200, {"mode": "workspace"})
