"""Approvals and questions over HTTP: each answer is for one exact thing."""

from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait
from holdfast.features.plans.run import UpdatePlan
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.policy.tool_names import ASK_USER
from holdfast.runner.supervisor import RunnerLimits
from server.toolbox import Counted
from serving import PATIENT, AsksAbout, Served, Setting, said_to, served, target_of
from stores import MemoryStore
from tables import for_each_row

TOUCHES = frozenset({"touch"})


async def asked(server: Served, run_id: str) -> str:
    frame = await server.until(run_id, "approval.request")
    assert frame.data["choices"] == ["once", "session", "always", "deny"]
    assert frame.data["command"].startswith("touch")
    assert frame.data["description"] == "it has an effect"
    assert frame.data["expires_at"] > frame.data["timestamp"]
    return frame.data["approval_id"]


async def test_an_approval_is_asked_shown_answered_once_and_then_stale() -> None:
    """S004-13, P8: before there is one, after it is answered, and after the run."""
    tool = Counted()
    async with (
        ChaosServer([CallTool("touch", {"n": 1})], [Say("done")]) as chaos,
        served(
            target_of(chaos, patience=PATIENT), setting=Setting(tools=(tool,), judge=AsksAbout(TOUCHES))
        ) as server,
    ):
        run_id = await server.start()
        approval_id = await asked(server, run_id)
        _, shown = await server.get(f"/v1/runs/{run_id}")
        assert shown["status"] == "waiting_for_approval"
        assert shown["approval"]["approval_id"] == approval_id
        assert shown["last_event"] == "approval.request"
        _, pending = await server.get("/v1/approvals")
        assert [one["approval_id"] for one in pending["data"]] == [approval_id]
        path = f"/v1/runs/{run_id}/approval"
        bad = await server.call("POST", path, body={"choice": "perhaps"})
        assert (bad.status, bad.code) == (400, "invalid_approval_choice")
        missing = await server.call("POST", path, body={})
        assert (missing.status, missing.json["error"]["param"]) == (400, "choice")
        other = await server.call("POST", path, body={"choice": "once", "approval_id": "apr_other"})
        assert (other.status, other.code) == (409, "approval_stale")
        for wrong_id in ("apr_other", ""):
            other = await server.call("POST", path, body={"choice": "once", "request_id": wrong_id})
            assert (other.status, other.code) == (409, "approval_not_pending")
        two = await server.call(
            "POST", path, body={"choice": "once", "approval_id": approval_id, "request_id": "apr_other"}
        )
        assert (two.status, two.json["error"]["param"]) == (400, "request_id")
        assert tool.done == []
        status, answer = await server.post(path, {"choice": "approve", "request_id": approval_id})
        assert status == 200
        assert answer["object"] == "hermes.run.approval_response"
        assert (answer["choice"], answer["resolved"]) == ("once", 1)
        late = await server.call("POST", path, body={"choice": "once", "approval_id": approval_id})
        assert (late.status, late.code) == (409, "approval_stale")
        late = await server.call("POST", path, body={"choice": "once", "request_id": approval_id})
        assert (late.status, late.code) == (409, "approval_not_pending")
        frames = await server.all_frames(run_id)
        names = [frame.data["event"] for frame in frames]
        assert names.index("approval.responded") < names.index("tool.started") < names.index("tool.completed")
        completed = next(frame.data for frame in frames if frame.data["event"] == "tool.completed")
        assert (completed["tool"], completed["error"], completed["result"]) == (
            "touch",
            False,
            "touch done",
        )
        over = await server.call("POST", path, body={"choice": "once"})
        assert (over.status, over.code) == (409, "approval_not_active")
        assert (await server.get("/v1/approvals"))[1]["data"] == []
    assert tool.done == [{"n": 1}]


async def test_a_denial_reaches_the_model_with_its_reason() -> None:
    tool = Counted()
    async with (
        ChaosServer([CallTool("touch", {})], [Say("all right")]) as chaos,
        served(
            target_of(chaos, patience=PATIENT), setting=Setting(tools=(tool,), judge=AsksAbout(TOUCHES))
        ) as server,
    ):
        run_id = await server.start()
        await asked(server, run_id)
        await server.post(f"/v1/runs/{run_id}/approval", {"choice": "deny", "reason": "not today"})
        await server.ended(run_id)
        assert "not today" in said_to(chaos, nth=2)[-1]
        ((listed,), (shown,)) = (
            (await server.get("/v1/runs"))[1]["data"],
            [(await server.get(f"/v1/runs/{run_id}"))[1]],
        )
        for told in (listed, shown):
            assert (told["status"], told["refused_actions"]) == ("completed", 1)
    assert tool.done == []


async def test_none_pending_is_a_conflict() -> None:
    """S004-13: 409 for a run that asks for nothing."""
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos)) as server:
        run_id = await server.start()
        answer = await server.call("POST", f"/v1/runs/{run_id}/approval", body={"choice": "once"})
        assert answer.status == 409
        assert answer.code in {"approval_not_active", "approval_not_pending"}


@for_each_row("no", ["false", 0, "no", False, None])
async def test_false_in_any_form_does_not_approve_all(no: object) -> None:
    """S004-14, P8: one answer is for one approval; without an id, two open ones are ambiguous."""
    tool = Counted()
    script = [CallTool("touch", {"n": 1}), CallTool("touch", {"n": 2})]
    async with (
        ChaosServer(script, [Say("done")]) as chaos,
        served(
            target_of(chaos, patience=PATIENT), setting=Setting(tools=(tool,), judge=AsksAbout(TOUCHES))
        ) as server,
    ):
        run_id = await server.start()
        first = await asked(server, run_id)
        async for frame in server.frames(run_id):
            if frame.data["event"] == "approval.request" and frame.data["approval_id"] != first:
                break
        path = f"/v1/runs/{run_id}/approval"
        unclear = await server.call("POST", path, body={"choice": "once", "all": no})
        assert (unclear.status, unclear.code) == (409, "approval_ambiguous")
        status, answer = await server.post(path, {"choice": "once", "all": no, "approval_id": first})
        assert (status, answer["resolved"]) == (200, 1)
        status, answer = await server.post(
            f"/v1/runs/{run_id}/approval", {"choice": "once", "resolve_all": "yes"}
        )
        assert (status, answer["resolved"]) == (200, 1)
        await server.ended(run_id)
    assert tool.done == [{"n": 1}, {"n": 2}]


async def test_a_rule_is_shown_before_it_is_stored() -> None:
    tool = Counted()
    async with (
        ChaosServer([CallTool("touch", {})], [CallTool("touch", {})], [Say("done")]) as chaos,
        served(
            target_of(chaos, patience=PATIENT), setting=Setting(tools=(tool,), judge=AsksAbout(TOUCHES))
        ) as server,
    ):
        run_id = await server.start()
        approval_id = await asked(server, run_id)
        path = f"/v1/runs/{run_id}/approval/{approval_id}/rule"
        _, preview = await server.get(f"{path}?choice=session")
        assert preview["rule"] == {"tool": "touch"}
        assert (await server.get(f"{path}?choice=once"))[0] == 400
        assert (await server.get(f"/v1/runs/{run_id}/approval/apr_x/rule"))[0] == 404
        await server.post(f"/v1/runs/{run_id}/approval", {"choice": "session"})
        await server.ended(run_id)
    assert len(tool.done) == 2


async def test_an_approval_survives_a_restart_under_the_same_id() -> None:
    """P8: it is on the log, not in a process."""
    disk, tool = MemoryDisk(), Counted()
    setting = Setting(tools=(tool,), judge=AsksAbout(TOUCHES))
    async with ChaosServer([CallTool("touch", {})], [Say("done")]) as chaos:
        target = target_of(chaos, patience=PATIENT)
        async with served(target, store=MemoryStore(disk), setting=setting) as server:
            run_id = await server.start()
            approval_id = await asked(server, run_id)
        async with served(target, store=MemoryStore(disk), setting=setting) as server:
            assert (await server.get("/v1/approvals"))[1]["data"][0]["approval_id"] == approval_id
            body = {"choice": "once", "approval_id": approval_id}
            assert (await server.post(f"/v1/runs/{run_id}/approval", body))[0] == 200
            assert (await server.ended(run_id))["status"] == "completed"
    assert len(tool.done) == 1


async def test_a_question_is_asked_and_answered() -> None:
    async with (
        ChaosServer([CallTool(ASK_USER, {"text": "Which?", "choices": ["a", "b"]})], [Say("ok")]) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        run_id = await server.start()
        frame = await server.until(run_id, "question.request")
        assert (frame.data["question"], frame.data["choices"]) == ("Which?", ["a", "b"])
        path = f"/v1/runs/{run_id}/question/{frame.data['question_id']}"
        assert (await server.get(f"/v1/runs/{run_id}"))[1]["question"]["question"] == "Which?"
        _, listed = await server.get("/v1/runs?status=waiting_for_approval")
        for shown in ((await server.get(f"/v1/runs/{run_id}"))[1], listed["data"][0]):
            assert (shown["status"], shown["waiting_for"]) == ("waiting_for_approval", "answer")
        assert (await server.post(path, {}))[0] == 400
        assert (await server.post(f"/v1/runs/{run_id}/question/que_x", {"answer": "a"}))[0] == 404
        assert (await server.post(path, {"answer": "a"}))[0] == 200
        await server.ended(run_id)
        assert (await server.post(path, {"answer": "b"}))[1]["error"]["code"] == "question_stale"
        assert said_to(chaos, nth=2)[-1] == "a"


async def test_a_run_that_waits_for_a_person_holds_no_slot_and_goes_on_at_once() -> None:
    """P10: unanswered questions of two sessions hold up nobody else, whatever the number of slots."""
    call = [CallTool("touch", {})]
    tool = Counted()
    setting = Setting(tools=(tool,), judge=AsksAbout(TOUCHES), runner=RunnerLimits(runs_max=1))
    gate = Gate()
    scripts = call, call, [Say("third"), Wait(gate)], [Say("first goes on")]
    async with (
        ChaosServer(*scripts) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=setting) as server,
    ):
        first, second = await server.start("a"), await server.start("b")
        for run_id in (first, second):
            await asked(server, run_id)
        third = await server.start("c")
        await gate.reached()
        _, waiting = await server.get(f"/v1/runs/{second}")
        assert waiting["status"] == "waiting_for_approval"
        assert (await server.post(f"/v1/runs/{first}/approval", {"choice": "once"}))[0] == 200
        assert (await server.ended(first))["output"] == "first goes on"
        gate.open()
        assert (await server.ended(third))["output"] == "third"
        assert (await server.post(f"/v1/runs/{second}/stop"))[0] == 200
        assert (await server.ended(second))["status"] == "cancelled"
    assert len(tool.done) == 1


async def test_an_approval_that_never_expires_says_so_and_waits_for_its_answer() -> None:
    """P3, P8: a wait without an end is a choice, and is shown as one."""
    tool = Counted()
    setting = Setting(tools=(tool,), judge=AsksAbout(TOUCHES), asks_expire_s=0)
    async with (
        ChaosServer([CallTool("touch", {})], [Say("done")]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=setting) as server,
    ):
        run_id = await server.start()
        frame = await server.until(run_id, "approval.request")
        assert frame.data["expires_at"] is None
        assert (await server.get("/v1/approvals"))[1]["data"][0]["expires_at"] is None
        status, _ = await server.post(f"/v1/runs/{run_id}/approval", {"choice": "once"})
        assert status == 200
        assert (await server.ended(run_id))["status"] == "completed"
    assert len(tool.done) == 1


async def test_a_plan_is_accepted_with_the_steps_that_the_person_wants() -> None:
    """P8, P12: only a plan can be changed, and only into a plan."""
    proposed = CallTool("update_plan", {"steps": [{"text": "look"}]})
    setting = Setting(tools=(Counted(), UpdatePlan()), judge=AsksAbout(TOUCHES))
    async with (
        ChaosServer([proposed], [Say("done")], [CallTool("touch", {"n": 1})], [Say("done")]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=setting) as server,
    ):
        run_id = await server.start(plan_first=True)
        await server.until(run_id, "approval.request")
        path = f"/v1/runs/{run_id}/approval"
        for steps in ([], [{"text": " "}], [{"text": "x" * 501}], [{"text": "x"}] * 51):
            bad = await server.call("POST", path, body={"choice": "once", "steps": steps})
            assert (bad.status, bad.json["error"]["param"]) == (400, "steps")
        wanted = [{"text": "look", "state": "completed"}, {"text": "touch"}]
        assert (await server.post(path, {"choice": "once", "steps": wanted}))[0] == 200
        await server.all_frames(run_id)
        session_id = (await server.get(f"/v1/runs/{run_id}"))[1]["session_id"]
        _, page = await server.get(f"/api/sessions/{session_id}/messages")
        assert (page["plan"]["steps"], page["plan"]["accepted"]) == (wanted, True)
        other = await server.start(session_id=session_id)
        await asked(server, other)
        path = f"/v1/runs/{other}/approval"
        refused = await server.call("POST", path, body={"choice": "once", "steps": wanted})
        assert (refused.status, refused.json["error"]["param"]) == (400, "steps")
