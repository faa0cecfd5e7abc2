"""Runs that wait for someone: hermes-webui's clarifications, and messages that come meanwhile."""

from typing import Any

from features.openai.official_client import client_of
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait
from holdfast.policy.tool_names import ASK_USER
from server.toolbox import Counted
from serving import AsksAbout, Served, Setting, served, target_of

WEATHER: Any = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
WEB_UI = {"User-Agent": "Hermes-WebUI-RunnerClient", "Accept": "application/json"}
QUESTION = CallTool(ASK_USER, {"text": "Which?", "choices": ["a", "b"]})


async def polled(server: Served, run_id: str) -> list[dict[str, Any]]:
    answer = await server.call("GET", f"/v1/runs/{run_id}/events", headers=WEB_UI)
    return answer.json["events"]


async def test_hermes_webui_shows_a_question_as_its_clarification_and_answers_it() -> None:
    """P8: by its id, and once."""
    async with (
        ChaosServer([QUESTION], [Say("b it is")]) as chaos,
        served(target_of(chaos)) as server,
    ):
        run_id = await server.start()
        frame = await server.until(run_id, "question.request")
        clarify_id = frame.data["clarify_id"]
        assert clarify_id == frame.data["question_id"]
        [asked] = [event for event in await polled(server, run_id) if event["event"] == "clarify"]
        assert (asked["clarify_id"], asked["question"], asked["kind"]) == (clarify_id, "Which?", "clarify")
        assert asked["choices_offered"] == ["a", "b"]
        assert asked["timeout_seconds"] > 0
        shown = (await server.get(f"/v1/runs/{run_id}"))[1]
        assert (shown["pending_clarify_id"], shown.get("pending_approval_id", "")) == (clarify_id, "")

        path = f"/v1/runs/{run_id}/clarifications/{clarify_id}/respond"
        empty = await server.call("POST", path, body={})
        assert (empty.status, empty.json["error"]["param"]) == (400, "answer")
        for two in ({"answer": "a", "response": "b"}, {"answer": "a", "clarify_id": "q_other"}):
            ambiguous = await server.call("POST", path, body=two)
            assert (ambiguous.status, ambiguous.json["error"]["param"]) == (400, list(two)[1])
        assert (await server.post(path, {"response": "b"}))[0] == 200
        late = await server.call("POST", path, body={"response": "a"})
        assert (late.status, late.code) == (409, "question_stale")
        assert (await server.ended(run_id))["output"] == "b it is"
        sent: Any = chaos.seen.requests[1].body
        assert sent["messages"][-1]["content"] == "b"
        unknown = await server.call("POST", path.replace(clarify_id, "q_none"), body={"response": "a"})
        assert (unknown.status, unknown.code) == (404, "question_not_found")


async def test_a_clarification_without_an_id_in_its_path_is_the_one_that_is_named_or_the_only_one() -> None:
    for body in ({"clarify_id": "", "answer": "b"}, {"response": "b"}):
        async with (
            ChaosServer([QUESTION], [Say("b it is")]) as chaos,
            served(target_of(chaos)) as server,
        ):
            run_id = await server.start()
            frame = await server.until(run_id, "question.request")
            said = body | ({"clarify_id": frame.data["clarify_id"]} if "clarify_id" in body else {})
            assert (await server.post(f"/v1/runs/{run_id}/clarify", said))[0] == 200
            assert (await server.ended(run_id))["output"] == "b it is"
            gone = await server.call("POST", f"/v1/runs/{run_id}/clarify", body={"answer": "a"})
            assert (gone.status, gone.code) == (404, "question_not_found")


async def test_hermes_webui_shows_an_approval_under_the_name_that_it_listens_for() -> None:
    setting = Setting(tools=(Counted(),), judge=AsksAbout(frozenset({"touch"})))
    async with (
        ChaosServer([CallTool("touch", {})], [Say("done")]) as chaos,
        served(target_of(chaos), setting=setting) as server,
    ):
        run_id = await server.start()
        asked = (await server.until(run_id, "approval.request")).data
        names = [event["event"] for event in await polled(server, run_id)]
        assert "approval" in names
        assert "approval.request" not in names
        shown = (await server.get(f"/v1/runs/{run_id}"))[1]
        assert shown["pending_approval_id"] == asked["approval_id"]
        steered = (await server.post(f"/v1/runs/{run_id}/steer", {"message": "hurry"}))[1]
        assert (steered["waiting_for"], steered["accepted"]) == ("approval", True)
        await server.post(f"/v1/runs/{run_id}/approval", {"choice": "once"})
        assert (await server.ended(run_id))["output"] == "done"


async def test_a_message_to_a_run_that_waits_for_its_clients_tools_is_kept_and_says_when_it_is_read() -> None:
    """P2: it is on disk; the client's results and the message reach the model together."""
    messages: Any = [{"role": "user", "content": "warm?"}]
    async with (
        ChaosServer([CallTool("weather", {})], [Say("Yes.")], [Say("Next.")]) as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        first = await client.chat.completions.with_raw_response.create(
            model="holdfast", messages=messages, tools=[WEATHER]
        )
        run_id = first.headers["x-hermes-run-id"]
        message: Any = first.parse().choices[0].message
        status, steered = await server.post(f"/v1/runs/{run_id}/steer", {"message": "in Celsius"})
        assert (status, steered["accepted"], steered["waiting_for"]) == (200, True, "client")
        assert "results of its client's tools" in steered["note"]
        status, queued = await server.post(
            f"/v1/runs/{run_id}/messages", {"message": "later", "mode": "queue"}
        )
        assert (status, queued["waiting_for"], queued["mode"]) == (200, "client", "queue")
        assert "after that one ends" in queued["note"]
        assert (await server.get(f"/v1/runs/{run_id}"))[1]["status"] == "waiting_for_client"

        result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "21"}
        history: Any = [*messages, message.model_dump(exclude_none=True), result]
        told = await client.chat.completions.create(model="holdfast", messages=history, tools=[WEATHER])
        assert told.choices[0].message.content == "Yes."
        sent: Any = chaos.seen.requests[1].body
        assert [one["role"] for one in sent["messages"] if one["role"] != "system"] == [
            "user", "assistant", "tool", "user"
        ]  # fmt: skip
        assert sent["messages"][-1]["content"] == "in Celsius"
        assert (await server.ended(queued["run_id"]))["output"] == "Next."


async def test_a_message_to_a_working_run_has_no_note() -> None:
    gate = Gate()
    async with ChaosServer([Say("x"), Wait(gate)], [Say("y")]) as chaos, served(target_of(chaos)) as server:
        run_id = await server.start()
        await server.until(run_id, "message.delta")
        status, steered = await server.post(f"/v1/runs/{run_id}/steer", {"message": "hi"})
        assert (status, steered["accepted"]) == (200, True)
        assert not {"waiting_for", "note"} & set(steered)
        gate.open()
        await server.ended(run_id)
