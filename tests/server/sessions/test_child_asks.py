"""What sub-agents ask, at their parent's place: every face shows it there, and one answer settles it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.world import Effect, asks_about
from features.ag_ui.client import asked, resumed, text_of, told
from features.delegation.delegating import choose
from features.mcp_server.rpc_client import RpcClient
from holdfast.chaos import CallTool, ChaosServer, Script, SeenRequest
from holdfast.features.delegation.tools import child_tools
from serving import Served, Setting, frames_in, served, target_of


@dataclass
class Lab:
    """A server whose agent has a sub-agent, whose sub-agent asks; and what was done."""

    server: Served
    chaos: ChaosServer
    acted: list[str] = field(default_factory=list[str])


@asynccontextmanager
async def lab(folder: Path) -> AsyncGenerator[Lab]:
    acted = list[str]()
    tools = (Effect("act", acted), *child_tools())
    setting = Setting(tools=tools, judge=asks_about("act"), workspace=folder)
    async with ChaosServer(choose=choose) as chaos, served(target_of(chaos), setting=setting) as server:
        yield Lab(server, chaos, acted)


async def asking(server: Served, run_id: str) -> dict[str, Any]:
    """The parent's status, once it says what is asked."""
    async for frame in server.follow(f"/v1/runs/{run_id}/events?view=native"):
        if frame.data.get("type") == "child.asked":
            return (await server.get(f"/v1/runs/{run_id}"))[1]
    raise AssertionError("nobody asked")


async def test_an_approval_of_a_sub_agent_is_shown_and_given_at_the_parents_run(tmp_path: Path) -> None:
    """P8: by the same id, once, and also if the run is all that a client knows."""
    async with lab(tmp_path) as world:
        server = world.server
        run_id = await server.start("go", session_id="s")
        shown = await asking(server, run_id)
        assert (shown["status"], shown["waiting_for"]) == ("waiting_for_approval", "approval")
        approval_id = shown["pending_approval_id"]
        assert shown["approval"]["approval_id"] == approval_id
        place = f"/v1/runs/{run_id}/approval"
        status, rule = await server.get(f"{place}/{approval_id}/rule")
        assert (status, rule["approval_id"]) == (200, approval_id)
        wrong, _ = await server.post(place, {"choice": "once", "approval_id": "apr_x"})
        assert wrong == 409
        assert not world.acted
        status, settled = await server.post(place, {"choice": "once"})
        assert (status, settled["approval_id"], settled["run_id"]) == (200, approval_id, run_id)
        again, problem = await server.post(place, {"choice": "deny", "approval_id": approval_id})
        assert (again, problem["error"]["code"]) == (409, "approval_stale")
        ended = await server.ended(run_id)
        names = [frame.data["event"] async for frame in server.follow(f"/v1/runs/{run_id}/events")]
    assert ended["output"] == "all done"
    assert len(world.acted) == 1
    assert [name for name in names if name.startswith("approval.")] == [
        "approval.request",
        "approval.responded",
    ]


async def test_an_approval_of_a_sub_agent_reaches_a_hermes_client_of_chat_completions(tmp_path: Path) -> None:
    """It can answer with what the frame says; else the run would wait until the approval expires."""
    async with lab(tmp_path) as world:
        server, seen, text = world.server, list[dict[str, Any]](), ""
        body = {"stream": True, "messages": [{"role": "user", "content": "go"}]}
        url, headers = f"{server.url}/v1/chat/completions", {"X-Hermes-Session-Id": "s"}
        async with server.http.post(url, json=body, headers=headers) as answer:
            async for frame in frames_in(answer.content):
                if frame.data.get("event") == "approval.request":
                    seen.append(frame.data)
                    place = f"/v1/runs/{frame.data['run_id']}/approval"
                    status, _ = await server.post(
                        place, {"choice": "once", "approval_id": frame.data["approval_id"]}
                    )
                    assert status == 200
                text += "".join(one["delta"].get("content") or "" for one in frame.data["choices"])
    assert len(seen) == len(world.acted) == 1
    assert text.endswith("all done")


async def test_a_question_of_a_sub_agent_is_answered_at_the_parents_run(tmp_path: Path) -> None:
    """P8: hermes-webui's clients name no question, if there is only one."""

    def asks(request: SeenRequest) -> Script:
        script = choose(request)
        question = CallTool("ask_user", {"text": "Which?", "choices": ["a", "b"]})
        return [question if isinstance(step, CallTool) and step.name == "act" else step for step in script]

    setting = Setting(tools=tuple(child_tools()), workspace=tmp_path)
    async with ChaosServer(choose=asks) as chaos, served(target_of(chaos), setting=setting) as server:
        run_id = await server.start("go", session_id="s")
        shown = await asking(server, run_id)
        assert shown["question"]["question"] == "Which?"
        question_id = shown["pending_clarify_id"]
        status, settled = await server.post(f"/v1/runs/{run_id}/question/{question_id}", {"answer": "b"})
        assert (status, settled["question_id"]) == (200, question_id)
        assert (await server.ended(run_id))["output"] == "all done"
        natives = [frame.data async for frame in server.follow(f"/v1/runs/{run_id}/events?view=native")]
    (answered,) = [one["settled"] for one in natives if one["type"] == "child.ask_settled"]
    assert (answered["type"], answered["answer"]) == ("question.answered", "b")


async def test_clients_of_openai_are_told_that_a_sub_agent_waits(tmp_path: Path) -> None:
    """P9: they can't answer, so the response says what is asked, and where."""
    async with lab(tmp_path) as world:
        body = {"model": "holdfast", "messages": [{"role": "user", "content": "go"}]}
        status, answer = await world.server.post("/v1/chat/completions", body)
        assert status == 200
        assert "Waiting for a person" in answer["choices"][0]["message"]["content"]
        status, answer = await world.server.post("/v1/responses", {"model": "holdfast", "input": "go"})
        assert (answer["status"], answer["incomplete_details"]["reason"]) == (
            "incomplete",
            "waiting_for_approval",
        )


async def test_an_ag_ui_client_is_interrupted_by_a_sub_agent_and_resumes_it(tmp_path: Path) -> None:
    """P8: the interrupt is of the client's own thread."""
    async with lab(tmp_path) as world:
        first = await told(world.server, asked("go"))
        (interrupt,) = first[-1][1]["outcome"]["interrupts"]
        assert interrupt["reason"] == "approval"
        busy = await world.server.call("POST", "/ag-ui", body=asked("and now?", run="r7"))
        assert (busy.status, busy.code) == (409, "interrupt_open")
        second = await told(world.server, resumed(interrupt["id"], {"choice": "once"}))
        assert text_of(second) == "all done"
        assert await told(world.server, resumed(interrupt["id"], {"choice": "once"})) == second
    assert len(world.acted) == 1


async def test_an_mcp_client_answers_a_sub_agent_and_hears_what_its_own_run_says(tmp_path: Path) -> None:
    """P8: the tool `answer` names the ask alone."""
    async with lab(tmp_path) as world:
        client = await RpcClient(world.server).begun()
        waits = await client.tool("run_agent", message="go")
        ask = waits["structuredContent"]["ask"]
        assert ask["kind"] == "approval"
        done = await client.tool("answer", id=ask["id"], answer="once")
        assert done["content"][0]["text"] == "all done"
        assert done["structuredContent"]["run_id"] == waits["structuredContent"]["run_id"]
    assert len(world.acted) == 1
