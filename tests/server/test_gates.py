"""A run that waits for a provider's time can be told to try now."""

from holdfast.chaos import ChaosServer, Say, rate_limited_s
from serving import served, target_of


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
