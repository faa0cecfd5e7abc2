"""Keys with scopes: what each may do, from the table of operations itself."""

import re

from holdfast.api.operation import SCOPES
from holdfast.api.operations import OPERATIONS
from holdfast.chaos import CallTool, ChaosServer, Say
from holdfast.journal.memory_disk import MemoryDisk
from server.access.scoped_keys import OWNER, locked, made
from serving import served, target_of
from stores import MemoryStore
from tables import for_each_row

TRIGGER_VERBS = ("pause", "resume", "run", "missed", "secret")


# Every operation by its effect: the same effect needs the same scope on every surface.
EFFECTS = {
    "see whether the server works": "health.alive health.ready",
    "sign in, with what proves it in the body": "browsers.sign_in hooks.deliver channels.deliver",
    "use one's own sign-in": "browsers.link browsers.sign_out browsers.ticket",
    "read about the API and the server": "docs.openapi docs.page health.capabilities health.detailed",
    "read what runs can use": "hermes.toolsets hermes.options",
    "read figures of the server": "metrics.show",
    "start or continue a run": "runs.start chat.chat chat.stream ag_ui.run mcp.post inputs.say inputs.retry "
    "inputs.compact conversations.create sessions.create goals.change",
    "start a run, or relay a call": "openai.complete responses.create responses.compact",
    "list models": "openai.models openai.model responses.input_tokens",
    "relay a call": "relay.messages relay.plain relay.count_tokens",
    "stop work": "inputs.stop responses.cancel processes.stop",
    "answer a question": "inputs.question",
    "try a waiting call now": "inputs.gate",
    "read a run": "runs.show runs.list runs.events responses.show responses.input_items "
    "changes.show changes.preview mcp.get",
    "hide a response": "responses.delete",
    "read a session": "sessions.show sessions.list sessions.live sessions.children sessions.draft log.events "
    "context.show log.list_changes log.messages log.export conversations.show conversations.items "
    "conversations.item processes.show queue.show goals.show",
    "change a session": "sessions.change conversations.change sessions.put_draft sessions.move log.fork "
    "log.rewind context.pin context.unpin context.revert queue.change queue.clear queue.pause "
    "queue.remove queue.resume hermes.choose",
    "delete a session, or bring it back": "sessions.delete sessions.undelete conversations.delete",
    "choose how actions are approved": "sessions.put_mode",
    "see what waits for approval": "inputs.approvals",
    "approve an action": "inputs.approve inputs.rule grants.list grants.revoke",
    "change files of a workspace": "files.write changes.undo changes.redo quarantine.list quarantine.restore "
    "quarantine.delete",
    "read files of a workspace": "files.list files.read skills.list skills.show "
    "commands.list commands.expand",
    "store and read attachments": "blobs.upload blobs.download",
    "read memories": "memory.list memory.history",
    "propose a memory": "memory.propose",
    "change memories": "memory.edit memory.decide memory.roll_back memory.forget",
    "start programs": "mcp_servers.put",
    "read targets": "targets.list",
    "call a target to try it": "targets.try_one",
    "administer keys": "keys.list keys.add keys.revoke",
    "administer the server": "nodes.list usage.show",
    "administer channels": "channels.list channels.pair channels.allow channels.revoke channels.test "
    "channels.log channels.send channels.message",
    "administer automations": "triggers.list triggers.create triggers.preview triggers.show triggers.edit "
    "triggers.delete triggers.pause triggers.resume triggers.run triggers.missed triggers.secret "
    "triggers.history jobs.list jobs.create jobs.show jobs.edit jobs.delete jobs.pause jobs.resume jobs.run",
}


def test_the_same_effect_needs_the_same_scope_on_every_surface() -> None:
    """P11: a new operation is added to the table, beside those that do the same."""
    scopes = {one.endpoint: one.scopes for one in OPERATIONS}
    sorted_by_effect = [endpoint for endpoints in EFFECTS.values() for endpoint in endpoints.split()]
    assert sorted(sorted_by_effect) == sorted(scopes)
    for effect, endpoints in EFFECTS.items():
        assert len({scopes[endpoint] for endpoint in endpoints.split()}) == 1, effect


async def test_every_operation_is_refused_to_a_key_without_its_scope_before_anything_is_read() -> None:
    """P11, P12: every route of the table, with each single scope, by key and by signed-in page alike."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=locked()) as server:
        keys = {scope: await made(server, scope) for scope in SCOPES}
        pages = {
            scope: await server.signed_in(key=key["Authorization"].removeprefix("Bearer "))
            for scope, key in keys.items()
        }
        _, document = await server.get("/openapi.json", **OWNER)
        refused = 0
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                for scope in SCOPES:
                    if scope in operation.get("x-scopes", SCOPES):
                        continue
                    # Programs alone use /mcp, so a page isn't let in at all.
                    for headers in (keys[scope],) if path == "/mcp" else (keys[scope], pages[scope]):
                        place = re.sub(r"[{}]", "", path)
                        answer = await server.call(method.upper(), place, body=b"no JSON", headers=headers)
                        assert (answer.status, answer.code) == (403, "missing_scope"), (method, path, scope)
                        error = answer.json["error"]
                        assert error["param"] in operation["x-scopes"]
                        assert f"'{error['param']}' (it has: {scope})" in error["message"]
                    refused += 1
        assert refused > 100


@for_each_row(
    ("scope", "operations"),
    [
        (
            "admin",
            {
                "GET /api/keys",
                "GET /api/nodes",
                "GET /api/usage",
                "POST /api/keys",
                "POST /api/targets/{name}/try",
                "DELETE /api/keys/{name}",
                "DELETE /api/sessions/{session_id}",
                "POST /api/sessions/{session_id}/undelete",
                "DELETE /v1/conversations/{session_id}",
                "PUT /api/sessions/{session_id}/mcp-servers/{client_id}",  # it starts programs
                "GET /api/channels",
                "GET /api/channels/{name}/log",
                "GET /api/channels/{name}/messages/{message_id}",
                "POST /api/channels/{name}/messages",
                "POST /api/channels/{name}/pair",
                "POST /api/channels/{name}/test",
                "POST /api/channels/{name}/users",
                "DELETE /api/channels/{name}/users/{user}",
                # What a trigger asks is asked again and again, without the one who made it.
                "GET /api/triggers",
                "POST /api/triggers",
                "POST /api/triggers/preview",
                "GET /api/triggers/{trigger_id}",
                "PATCH /api/triggers/{trigger_id}",
                "DELETE /api/triggers/{trigger_id}",
                "GET /api/triggers/{trigger_id}/history",
                *(f"POST /api/triggers/{{trigger_id}}/{verb}" for verb in TRIGGER_VERBS),
                "GET /api/jobs",
                "POST /api/jobs",
                "GET /api/jobs/{job_id}",
                "PATCH /api/jobs/{job_id}",
                "DELETE /api/jobs/{job_id}",
                *(f"POST /api/jobs/{{job_id}}/{verb}" for verb in ("pause", "resume", "run")),
            },
        ),
        (
            "approve",
            {
                "POST /v1/runs/{run_id}/approval",
                "POST /v1/runs/{run_id}/undo",
                "POST /v1/runs/{run_id}/redo",
                "PUT /api/sessions/{session_id}/files/content",
                # What is remembered is shown to the model in every later session.
                "PUT /v1/memory",
                *(f"POST /v1/memory/{verb}" for verb in ("decide", "rollback", "forget")),
                "GET /v1/runs/{run_id}/approval/{approval_id}/rule",
                "GET /api/approvals/rules",
                "DELETE /api/approvals/rules/{grant_id}",
                "GET /api/quarantine",
                "POST /api/quarantine/{file_id}/restore",
                "DELETE /api/quarantine/{file_id}",
            },
        ),
    ],
)
async def test_the_table_says_what_needs_more_than_to_chat(scope: str, operations: set[str]) -> None:
    """P8, P11: exactly these, so that a new route is thought about."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        _, document = await server.get("/openapi.json")
        found = {
            f"{method.upper()} {path}"
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            if operation.get("x-scopes") == [scope]
        }
        assert found == operations


async def test_an_approval_is_answered_by_a_key_that_may_and_by_no_other() -> None:
    """P8, P11: the one who chats cannot allow themselves anything; the one who approves cannot chat."""
    scripts = ([CallTool("touch", {"path": "a"})], [Say("done")])
    async with ChaosServer(*scripts) as chaos, served(target_of(chaos), setting=locked()) as server:
        chat, approve = await made(server, "chat"), await made(server, "approve")
        status, started = await server.post("/v1/runs", {"input": "do it", "session_id": "s"}, **chat)
        assert status == 202
        assert (await server.post("/v1/runs", {"input": "x"}, **approve))[0] == 403
        frames = server.follow(f"/v1/runs/{started['run_id']}/events", headers=chat)
        async for frame in frames:
            if frame.data["event"] == "approval.request":
                break
        path = f"/v1/runs/{started['run_id']}/approval"
        for choice in ("once", "session", "always", "deny"):
            answer = await server.call("POST", path, body={"choice": choice}, headers=chat)
            assert (answer.status, answer.code) == (403, "missing_scope")
        status, waiting = await server.get("/v1/approvals", **approve)
        assert (status, [one["run_id"] for one in waiting["data"]]) == (200, [started["run_id"]])
        assert (await server.post(path, {"choice": "once"}, **approve))[0] == 200
        async for frame in frames:
            if frame.data["event"] == "run.completed":
                break
        await frames.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


async def test_a_key_from_before_there_were_scopes_may_do_everything_and_scopes_outlive_a_restart() -> None:
    """P11: existing clients go on as they are."""
    disk = MemoryDisk()
    async with ChaosServer() as chaos:
        async with served(target_of(chaos), store=MemoryStore(disk), setting=locked()) as server:
            old, new = await made(server, *SCOPES, name="old"), await made(server, "chat", name="new")
        whole, _, _ = disk.notes["api_key:old"].partition(b',"scopes"')
        disk.notes["api_key:old"] = whole + b"}"
        disk.notes["api_key:new"] = disk.notes["api_key:new"].replace(b'["chat"]', b'["chat","later"]')
        async with served(target_of(chaos), store=MemoryStore(disk), setting=locked()) as server:
            assert (await server.get("/api/keys", **old))[0] == 200
            assert (await server.get("/api/keys", **new))[0] == 403
            _, listed = await server.get("/api/keys", **OWNER)
            assert {one["name"]: one["scopes"] for one in listed["data"]} == {
                "owner": list(SCOPES),
                "old": list(SCOPES),
                "new": ["chat"],
            }
            _, about = await server.get("/v1/capabilities", **new)
            assert about["auth"]["scopes"] == ["chat"]


async def test_a_key_without_any_scope_or_with_an_unknown_one_is_not_made() -> None:
    """P12."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=locked()) as server:
        for scopes in ([], ["root"], "chat", ["chat", 1]):
            answer = await server.call(
                "POST", "/api/keys", body={"name": "x", "scopes": scopes}, headers=OWNER
            )
            assert answer.status == 400, scopes
            assert answer.json["error"]["param"].startswith("scopes")
        status, answer = await server.post("/api/keys", {"name": "x"}, **OWNER)
        assert (status, answer["scopes"]) == (201, list(SCOPES))
