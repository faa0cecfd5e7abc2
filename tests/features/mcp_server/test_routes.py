"""The agent as a tool of other agents: every way to run it, answer it, stop it and come back to it."""

from contextlib import aclosing
from typing import Any

import mcp_types as types
import pytest
from mcp.client import Client

from features.mcp_server.rpc_client import FORMS, META, NEW, OLD, TASKS, RpcClient
from holdfast.chaos import CallTool, ChaosServer, Hang, Say
from holdfast.features.mcp_server.run_calls import cursor_in
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.server.options import ApiKey, ServerOptions
from server.toolbox import Counted
from serving import AsksAbout, Served, Setting, served, target_of
from stores import MemoryStore
from tables import for_each_row

OWNER = {"Authorization": "Bearer sk-secret-of-the-owner"}
LOCKED = ServerOptions(keys=(ApiKey("owner", "sk-secret-of-the-owner"),))
ERAS = pytest.mark.parametrize("version", [OLD, NEW])


def asks(counted: Counted, *, options: ServerOptions | None = None) -> Setting:
    judge = AsksAbout(frozenset({"touch"}))
    return Setting(tools=(counted,), judge=judge, options=options or ServerOptions())


async def chat_key(server: Served) -> dict[str, str]:
    _, made = await server.post("/api/keys", {"name": "chat", "scopes": ["chat"]}, **OWNER)
    return {"Authorization": f"Bearer {made['key']}"}


async def runs_of(server: Served, **headers: str) -> list[dict[str, Any]]:
    return (await server.get("/v1/runs", **headers))[1]["data"]


def text_of(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


@for_each_row("mode", ["legacy", "auto"])
async def test_the_official_client_runs_the_agent_and_hears_of_its_progress(mode: str) -> None:
    heard: list[tuple[float, str]] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        del total
        heard.append((progress, message or ""))

    script = [Say("I look."), CallTool("touch", {"n": 1})]
    async with (
        ChaosServer(script, [Say("It's done.")], [Say("Again.")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(Counted(),))) as server,
        Client(f"{server.url}/mcp", mode=mode) as client,
    ):
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert names[:2] == ["run_agent", "answer"]
        result = await client.call_tool("run_agent", {"message": "hi"}, progress_callback=progressed)
        about: dict[str, Any] = result.structured_content or {}
        assert isinstance(result.content[0], types.TextContent)
        assert (result.content[0].text, result.is_error) == ("It's done.", False)
        assert (about["outcome"], about["status"]) == ("completed", "ended")
        assert [text for _, text in heard] == ["The agent starts", 'touch: {"n":1}']
        assert [at for at, _ in heard] == sorted({at for at, _ in heard})
        again: dict[str, Any] = {"message": "again", "session_id": about["session_id"]}
        following = await client.call_tool("run_agent", again)
        assert (following.structured_content or {})["session_id"] == about["session_id"]
        [listed] = (await client.list_resources()).resources
        read = (await client.read_resource(listed.uri)).contents[0]
        assert isinstance(read, types.TextResourceContents)
        assert "It's done." in read.text
        [prompt] = (await client.list_prompts()).prompts
        said = (await client.get_prompt(prompt.name, {"task": "tidy up"})).messages[0].content
        assert isinstance(said, types.TextContent)
        assert "Task: tidy up" in said.text
    assert len(chaos.seen.requests) == 3


@for_each_row("mode", ["legacy", "auto"])
@for_each_row(
    ("action", "content", "done", "text"),
    [
        ("accept", {"choice": "once"}, 1, "Done."),
        ("decline", None, 0, "Done."),
        ("cancel", None, 0, "Done."),
    ],
)
async def test_an_approval_is_a_form_for_clients_that_show_forms(
    mode: str, action: Any, content: Any, done: int, text: str
) -> None:
    """P8: exactly this action, by its id; whoever closes the form has not agreed."""
    shown: list[str] = []

    async def form(context: Any, params: Any) -> types.ElicitResult:
        del context
        shown.append(params.message)
        return types.ElicitResult(action=action, content=content)

    counted = Counted()
    async with (
        ChaosServer([CallTool("touch", {"n": 1})], [Say("Done.")]) as chaos,
        served(target_of(chaos), setting=asks(counted)) as server,
        Client(f"{server.url}/mcp", mode=mode, elicitation_callback=form) as client,
    ):
        result = await client.call_tool("run_agent", {"message": "hi"})
        assert isinstance(result.content[0], types.TextContent)
        assert result.content[0].text == text
        assert len(await runs_of(server)) == 1
    assert (len(counted.done), len(shown)) == (done, 1)
    assert "touch" in shown[0]


@ERAS
async def test_an_approval_ends_the_call_of_a_client_without_forms_and_a_tool_answers_it(
    version: str,
) -> None:
    """P8."""
    counted = Counted()
    async with (
        ChaosServer([CallTool("touch", {"n": 1})], [Say("Done.")]) as chaos,
        served(target_of(chaos), setting=asks(counted)) as server,
    ):
        client = await RpcClient(server, version).begun()
        waits = await client.tool("run_agent", message="hi")
        about = waits["structuredContent"]
        assert (about["status"], about["ask"]["kind"], waits["isError"]) == (
            "waiting_for_approval",
            "approval",
            False,
        )
        assert about["ask"]["id"] in text_of(waits)
        shown = await client.tool("get_run", run_id=about["run_id"])
        assert shown["structuredContent"]["ask"]["id"] == about["ask"]["id"]
        wrong = await client.tool("answer", id=about["ask"]["id"], answer="maybe")
        assert (wrong["isError"], wrong["structuredContent"]["code"]) == (True, "invalid_approval_choice")
        form = {"action": "accept", "content": {"choice": "once"}}
        both = {
            "jsonrpc": "2.0",
            "id": about["ask"]["id"],
            "result": form,
            "error": {"code": 1, "message": "no"},
        }
        assert (await client.posted(both)).status == 400
        unknown = await client.tool("answer", id="apr_x", answer="once")
        assert unknown["structuredContent"]["code"] == "ask_not_found"
        assert not counted.done
        done = await client.tool("answer", id=about["ask"]["id"], answer="once")
        assert (text_of(done), done["structuredContent"]["outcome"]) == ("Done.", "completed")
    assert counted.done == [{"n": 1}]


@ERAS
async def test_a_key_that_may_only_chat_approves_in_no_way(version: str) -> None:
    """P8, P11: not by the tool, not by a form that it was never sent, not as a task."""
    counted = Counted()
    async with (
        ChaosServer([CallTool("touch", {"n": 1})], [Say("Done.")]) as chaos,
        served(target_of(chaos), setting=asks(counted, options=LOCKED)) as server,
    ):
        chat = await chat_key(server)
        client = await RpcClient(server, version, FORMS, chat).begun()
        waits = await client.tool("run_agent", message="hi")
        ask, run_id = waits["structuredContent"]["ask"]["id"], waits["structuredContent"]["run_id"]
        assert "can't approve" in text_of(waits)
        refused = await client.tool("answer", id=ask, answer="once")
        assert (refused["isError"], refused["structuredContent"]["code"]) == (True, "missing_scope")
        yes = {"action": "accept", "content": {"choice": "once"}}
        if version == OLD:
            answer = await client.posted({"jsonrpc": "2.0", "id": ask, "result": yes})
            assert (answer.status, answer.json["error"]["data"]["code"]) == (403, "missing_scope")
        else:
            again = {"name": "run_agent", "arguments": {"message": "hi"}, "requestState": run_id}
            said = await client.asked("tools/call", again | {"inputResponses": {ask: yes}})
            assert said["result"]["structuredContent"]["code"] == "missing_scope"
            tasks = RpcClient(server, NEW, FORMS | TASKS, chat)
            assert (await tasks.result("tasks/get", {"taskId": run_id}))["status"] == "working"
            update = {"taskId": run_id, "inputResponses": {ask: yes}}
            assert (await tasks.asked("tasks/update", update))["error"]["data"]["code"] == "missing_scope"
        assert not counted.done
        owner = await RpcClient(server, version, headers=OWNER).begun()
        assert text_of(await owner.tool("answer", id=ask, answer="deny")) == "Done."
    assert not counted.done


async def test_a_run_is_a_task_that_any_connection_can_ask_about() -> None:
    """P6, P7: its id is the run's, and the log all that it needs; a restart changes nothing."""
    counted, disk = Counted(), MemoryDisk()
    async with ChaosServer([CallTool("touch", {"n": 1})], [Say("Done.")]) as chaos:
        async with served(target_of(chaos), store=MemoryStore(disk), setting=asks(counted)) as server:
            made = await RpcClient(server, can=FORMS | TASKS).tool("run_agent", message="hi")
            assert (made["resultType"], made["ttlMs"]) == ("task", None)
            task = {"taskId": made["taskId"]}
            assert [run["run_id"] for run in await runs_of(server)] == [made["taskId"]]
            await server.until(made["taskId"], "approval.request")
            waits = await RpcClient(server, can=FORMS | TASKS).result("tasks/get", task)
            [ask] = waits["inputRequests"]
            assert waits["status"] == "input_required"
        async with served(target_of(chaos), store=MemoryStore(disk), setting=asks(counted)) as server:
            client = RpcClient(server, can=FORMS | TASKS)
            assert list((await client.result("tasks/get", task))["inputRequests"]) == [ask]
            no_forms = await RpcClient(server, can=TASKS).result("tasks/get", task)
            assert (no_forms["status"], ask in no_forms["statusMessage"]) == ("working", True)
            bad = {"inputResponses": {ask: {"action": "accept", "content": {"choice": 7}}}}
            assert (await client.asked("tasks/update", task | bad))["error"]["code"] == -32602
            assert not counted.done
            yes = {"inputResponses": {ask: {"action": "accept", "content": {"choice": "once"}}}}
            assert await client.result("tasks/update", task | yes) == {"resultType": "complete"}
            await server.ended(made["taskId"])
            done = await client.result("tasks/get", task)
            assert (done["status"], text_of(done["result"])) == ("completed", "Done.")
            assert await client.result("tasks/update", task | yes) == {"resultType": "complete"}
            assert await client.result("tasks/cancel", task) == {"resultType": "complete"}
            assert (await client.asked("tasks/get", {"taskId": "run_x"}))["error"]["code"] == -32602
            silent = await RpcClient(server).asked("tasks/get", task)
            assert silent["error"]["data"] == {"requiredCapabilities": TASKS}
    assert counted.done == [{"n": 1}]


async def test_a_question_is_asked_and_answered_the_same_ways() -> None:
    ask = [CallTool("ask_user", {"text": "Which one?", "choices": ["a", "b"]})]
    async with (
        ChaosServer(ask, [Say("So b.")], ask, [Say("So a.")]) as chaos,
        served(target_of(chaos), setting=Setting(options=LOCKED)) as server,
    ):
        client = RpcClient(server, headers=await chat_key(server))
        waits = await client.tool("run_agent", message="hi")
        question = waits["structuredContent"]["ask"]
        assert (question["kind"], question["question"]) == ("question", "Which one?")
        assert text_of(await client.tool("answer", id=question["id"], answer="b")) == "So b."
        forms = RpcClient(server, can=FORMS, headers=client.headers)
        call = {"name": "run_agent", "arguments": {"message": "hi"}}
        first = await forms.result("tools/call", call)
        [(id_, request)] = first["inputRequests"].items()
        assert (first["resultType"], request["params"]["message"]) == ("input_required", "Which one?")
        said = {"inputResponses": {id_: {"action": "accept", "content": {"answer": "a"}}}}
        state = {"requestState": first["requestState"]}
        assert text_of(await forms.result("tools/call", call | state | said)) == "So a."


async def test_from_any_cursor_the_rest_of_the_stream_is_the_same_and_nothing_runs_again() -> None:
    """P7, P2."""
    counted = Counted()
    script = [Say("one"), CallTool("touch", {"n": 1})]
    async with (
        ChaosServer(script, [Say("two")], [Say("other")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(counted,))) as server,
    ):
        client = await RpcClient(server, OLD).begun()
        call = {"name": "run_agent", "arguments": {"message": "hi"}, "_meta": {"progressToken": "p"}}
        message = client.message("tools/call", call)
        whole = await client.whole(client.stream(message))
        assert whole[0][1] == {}  # a cursor before anything has happened
        assert whole[-1][1]["result"]["structuredContent"]["outcome"] == "completed"
        for at, (cursor, _) in enumerate(whole[:-1]):
            rest = await client.whole(client.got(**{"Last-Event-ID": cursor}))
            assert [said for _, said in rest if said] == [said for _, said in whole[at + 1 :] if said]
        last = await client.whole(client.got(**{"Last-Event-ID": whole[-1][0]}))
        assert [said for _, said in last if said] == [whole[-1][1]]  # told again, since nothing else follows
        beyond = cursor_in(whole[-1][0]).encoded(10_000)
        headers = {"Last-Event-ID": beyond, "Mcp-Session-Id": client.session}
        assert (await server.call("GET", "/mcp", headers=headers)).json["error"]["code"] == -32602
        repeated = await client.whole(client.stream(message))
        assert repeated == whole
        other = client.message("tools/call", {"name": "run_agent", "arguments": {"message": "other"}})
        foreign = await client.posted(other, **{"Last-Event-ID": whole[0][0]})
        assert foreign.json["result"]["isError"]
        for bad in ("7", "x" * 9_000, "W10", "é".encode().decode("latin-1")):
            answer = await server.call(
                "GET", "/mcp", headers={"Last-Event-ID": bad, "Mcp-Session-Id": client.session}
            )
            assert (answer.status, answer.json["error"]["code"]) == (400, -32602)
    assert counted.done == [{"n": 1}]


@ERAS
async def test_a_repeated_call_under_one_key_is_one_run(version: str) -> None:
    """P2: whether the key is a header or in the request's `_meta`."""
    async with (
        ChaosServer([Say("one")], [Say("two")]) as chaos,
        served(target_of(chaos)) as server,
    ):
        meta = {"holdfast/idempotency-key": "k"}
        for client in [await RpcClient(server, version).begun() for _ in range(2)]:
            assert text_of(await client.tool("run_agent", _meta=meta, message="hi")) == "one"
        client = await RpcClient(server, version).begun()
        call = {"name": "run_agent", "arguments": {"message": "hi"}}
        again = await client.result("tools/call", call, **{"Idempotency-Key": "k"})
        assert text_of(again) == "one"
        call = {"name": "run_agent", "arguments": {"message": "else"}}
        other = await client.result("tools/call", call, **{"Idempotency-Key": "k"})
        assert (other["isError"], other["structuredContent"]["code"]) == (True, "idempotency_key_conflict")
        assert len(await runs_of(server)) == 1


async def test_cancelling_a_request_stops_its_run() -> None:
    """P5: up to 2025 by a notification, and the reader's leaving alone is none."""
    async with (
        ChaosServer([Say("x"), Hang()], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
    ):
        client = await RpcClient(server, OLD).begun()
        other = await RpcClient(server, OLD).begun()
        call = {"name": "run_agent", "arguments": {"message": "hi"}, "_meta": {"progressToken": 1}}
        message = client.message("tools/call", call)
        async with aclosing(client.stream(message)) as frames:
            async for _, said in frames:
                if said.get("method") == "notifications/progress":
                    break
        await server.until_streams(0)
        [run] = await runs_of(server)
        cancel = {
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": {"requestId": message["id"]},
        }
        assert (await other.posted(cancel)).status == 202  # the same id in another session is another request
        assert (await server.get(f"/v1/runs/{run['run_id']}"))[1]["status"] == "running"
        assert (await client.posted(cancel)).status == 202
        assert (await server.ended(run["run_id"]))["outcome"] == "cancelled"


async def test_since_2026_leaving_is_cancelling_unless_the_client_can_come_back() -> None:
    """P5."""
    async with (
        ChaosServer([Say("x"), Hang()], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
    ):
        client = RpcClient(server)
        call = {"name": "run_agent", "arguments": {"message": "hi"}, "_meta": {"progressToken": 1}}

        async def left(**headers: str) -> dict[str, Any]:
            async with aclosing(client.stream(client.message("tools/call", call), **headers)) as frames:
                await anext(frames)
            await server.until_streams(0)
            return (await runs_of(server))[0]

        assert (await server.ended((await left())["run_id"]))["outcome"] == "cancelled"
        kept = await left(**{"Idempotency-Key": "k"})
        assert (await server.get(f"/v1/runs/{kept['run_id']}"))[1]["status"] == "running"
        params = {"requestId": 9}
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        answer = await client.posted(cancel, **{"Idempotency-Key": "k"})
        assert answer.status == 202
        assert (await server.ended(kept["run_id"]))["outcome"] == "cancelled"
        task = await RpcClient(server, can=TASKS).tool("run_agent", message="hi")
        await RpcClient(server, can=TASKS).result("tasks/cancel", {"taskId": task["taskId"]})
        assert (await server.ended(task["taskId"]))["outcome"] == "cancelled"
        shown = await RpcClient(server, can=TASKS).result("tasks/get", {"taskId": task["taskId"]})
        assert shown["status"] == "cancelled"


async def test_a_run_can_be_messaged_looked_at_and_stopped() -> None:
    async with (
        ChaosServer([Say("so far"), Hang()]) as chaos,
        served(target_of(chaos)) as server,
    ):
        client = RpcClient(server, can=TASKS)
        run_id = (await client.tool("run_agent", message="hi"))["taskId"]
        await server.until(run_id, "message.delta")
        once = {"holdfast/idempotency-key": "k"}
        sent = await client.tool("send_message", _meta=once, run_id=run_id, message="faster")
        assert await client.tool("send_message", _meta=once, run_id=run_id, message="faster") == sent
        assert sent["structuredContent"]["run_id"] == run_id
        assert (await client.tool("get_run", run_id=run_id))["structuredContent"]["status"] == "running"
        [session] = (await client.tool("list_sessions"))["structuredContent"]["sessions"]
        assert session["status"] == "running"
        stopped = await client.tool("stop_run", run_id=run_id)
        assert stopped["structuredContent"]["status"] == "stopping"
        await server.ended(run_id)
        assert (await client.tool("stop_run", run_id=run_id))["structuredContent"]["status"] == "ended"
        late = await client.tool("send_message", run_id=run_id, message="faster")
        assert (late["isError"], late["structuredContent"]["code"]) == (True, "run_not_accepting_steer")
        shown = await client.tool("get_run", run_id=run_id)
        assert (shown["structuredContent"]["outcome"], shown["isError"]) == ("cancelled", False)
        assert (await client.tool("get_run", run_id="run_x"))["structuredContent"]["code"] == "run_not_found"


def test_the_keys_of_meta_are_those_of_the_protocol() -> None:
    assert f"{META}protocolVersion" == types.PROTOCOL_VERSION_META_KEY
