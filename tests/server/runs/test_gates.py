"""Runs that wait: for a provider's time, which can be cut short, and for a model that is away."""

from holdfast.chaos import ChaosServer, Say, closed_port, rate_limited_s
from holdfast.runner.supervisor import RunnerLimits
from holdfast.targets import Target
from serving import Setting, served, target_of


async def test_a_person_ends_the_wait_at_a_gate() -> None:
    """P3: the wait has a visible end, and a way around it."""
    async with (
        ChaosServer([rate_limited_s(3600)], [Say("at last")]) as chaos,
        served(target_of(chaos)) as server,
    ):
        run_id = await server.start()
        async for frame in server.frames(run_id, view="native"):
            if frame.data["type"] == "call.gated":
                break
        _, shown = await server.get(f"/v1/runs/{run_id}")
        assert shown["gated_until"] > shown["created_at"]
        path = f"/v1/runs/{run_id}/gate"
        assert (await server.call("POST", path, body={"action": "wait"})).json["error"]["param"] == "action"
        status, answer = await server.post(path, {"action": "try_now"})
        assert (status, answer["status"]) == (200, "trying")
        assert (await server.ended(run_id))["output"] == "at last"
        late = await server.call("POST", path, body={"action": "try_now"})
        assert (late.status, late.code) == (409, "not_gated")


async def test_a_run_that_waits_for_a_model_that_is_away_holds_no_slot_and_is_stopped_at_once() -> None:
    """P5, P10: with one slot, the next run finds the same out for itself while the first still waits."""
    with closed_port() as port:
        away = Target(name="main", wire="chat", base_url=f"http://127.0.0.1:{port}/v1", model="m")
        async with served(away, setting=Setting(runner=RunnerLimits(runs_max=1))) as server:
            first, second = await server.start("a"), await server.start("b")
            for run_id in (first, second):
                async for frame in server.frames(run_id, view="native"):
                    if frame.data["type"] == "attempt.failed":
                        break
            assert (await server.get(f"/v1/runs/{first}"))[1]["status"] == "running"
            for run_id in (first, second):
                assert (await server.post(f"/v1/runs/{run_id}/stop"))[0] == 200
                assert (await server.ended(run_id))["status"] == "cancelled"
