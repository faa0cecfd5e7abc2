"""A session's permission mode over HTTP: who can set which, and where it's shown."""

from typing import Any

from msgspec.structs import replace

from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.features.plans.run import UpdatePlan
from holdfast.values import ParentLink
from server.access.scoped_keys import OWNER, locked, made
from serving import AsksAbout, Served, Setting, served, target_of
from stores import MemoryStore

MODE = "/api/sessions/s/approval-mode"


async def put(server: Served, mode: str, headers: dict[str, str]) -> tuple[int, dict[str, Any]]:
    answer = await server.call("PUT", MODE, body={"mode": mode}, headers=headers)
    return answer.status, answer.json if answer.status == 200 else {"code": answer.code}


async def until(store: MemoryStore, kind: type[e.Event], *, times: int) -> None:
    """Wait until the session's log has this many events of the kind."""
    seen = 0
    async for records in store.follow("s", after=0):
        seen += sum(isinstance(record.event, kind) for record in records)
        if seen >= times:
            return


async def shown_mode(server: Served, session_id: str = "s") -> str:
    status, page = await server.get(f"/api/sessions/{session_id}/messages", **OWNER)
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


async def test_a_fork_is_no_looser_than_its_source_is_now_or_than_its_caller_can_choose() -> None:
    """P8, P13: a key that can only chat can't loosen a mode with a fork, of whatever seq."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=locked()) as server:
        talker, approver = await made(server, "chat"), await made(server, "chat", "approve")
        assert (await server.post("/api/sessions", {"session_id": "s"}, **OWNER))[0] == 201
        for mode in ("workspace", "plan", "edits"):
            assert (await put(server, mode, OWNER))[0] == 200
        cases = (
            ("workspace", 2, OWNER, "workspace"),
            ("edits", 4, OWNER, "edits"),
            ("edits", 2, OWNER, "edits"),
            ("edits", 2, approver, "ask"),
            ("edits", 4, talker, "ask"),
            ("edits", 3, talker, "plan"),
            ("unattended", 2, talker, "unattended"),
            ("plan", 2, OWNER, "plan"),
            ("plan", 1, talker, "plan"),
        )
        for at, (now, at_seq, headers, expected) in enumerate(cases):
            assert (await put(server, now, OWNER))[0] == 200
            body = {"session_id": f"fork{at}", "at_seq": at_seq}
            assert (await server.post("/api/sessions/s/fork", body, **headers))[0] == 201
            assert await shown_mode(server, f"fork{at}") == expected, (now, at_seq, expected)


async def test_an_accepted_plan_sets_no_mode_that_its_approver_cannot_set() -> None:
    """P8, P13: the configured mode is looser than what an added key can choose."""
    plan = CallTool("update_plan", {"steps": [{"text": "write"}]})
    setting = replace(locked(), judge=AsksAbout(mode="workspace"), tools=(UpdatePlan(),))
    store = MemoryStore()
    async with (
        ChaosServer([plan], [Say("done")], [plan], [Say("done")]) as chaos,
        served(target_of(chaos), store=store, setting=setting) as server,
    ):
        approver = await made(server, "chat", "approve")
        for times, headers, expected in ((1, approver, "ask"), (2, OWNER, "workspace")):
            body = {"input": "hi", "session_id": "s", "permission_mode": "plan"}
            status, started = await server.post("/v1/runs", body, **headers)
            assert status == 202
            path = f"/v1/runs/{started['run_id']}"
            await until(store, e.ApprovalAsked, times=times)
            assert await shown_mode(server) == "plan"
            assert (await server.post(f"{path}/approval", {"choice": "once"}, **headers))[0] == 200
            assert await shown_mode(server) == expected
            await until(store, e.RunEnded, times=times)
    await store.close()


async def test_a_sub_agents_session_cannot_have_a_looser_mode_than_its_parents() -> None:
    """P13: whoever asks, alone or with a message; nor can a fork of it."""
    store = MemoryStore()
    link = ParentLink(session_id="parent", run_id="run_p", tool_call_id="call_p", name="agent-1")
    await store.append("parent", [e.SessionCreated(at_ms=0, epoch="p")])
    await store.append("s", [e.SessionCreated(at_ms=0, epoch="c", parent=link)])
    async with ChaosServer() as chaos, served(target_of(chaos), store=store, setting=locked()) as server:
        refused = (403, {"code": "mode_not_allowed"})
        assert await put(server, "edits", OWNER) == refused
        assert (await put(server, "ask", OWNER))[0] == 200
        body = {"input": "hi", "session_id": "s", "permission_mode": "workspace"}
        status, answer = await server.post("/v1/runs", body, **OWNER)
        assert (status, answer["error"]["code"]) == (403, "mode_not_allowed")
        # As after a crash between the two logs.
        await store.append("parent", [e.PermissionModeSet(at_ms=0, mode="plan", by="owner")])
        assert (await server.post("/api/sessions/s/fork", {"session_id": "fork"}, **OWNER))[0] == 201
        assert await shown_mode(server, "fork") == "plan"
    await store.close()


async def test_a_server_without_keys_is_its_owners() -> None:
    setting = Setting(judge=AsksAbout())
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        assert (await server.post("/api/sessions", {"session_id": "s"}))[0] == 201
        assert await put(server, "workspace", {}) == (200, {"mode": "workspace"})
