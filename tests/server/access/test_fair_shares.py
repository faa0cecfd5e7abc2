"""Two keys on one server: one takes everything it can get, and the other is served all the same."""

from contextlib import AsyncExitStack
from pathlib import Path

from msgspec.structs import replace

from agent.world import messages
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Script, SeenRequest, Wait
from holdfast.features.delegation.tools import child_tools
from holdfast.runner.supervisor import RunnerLimits
from holdfast.server.options import Limits
from server.access.scoped_keys import OWNER, locked, made
from serving import Served, Setting, served, target_of

LIMITS = Limits(queued_runs_max=4, subscribers_max=4)


def shared(workspace: Path) -> Setting:
    """A server with four slots, four places in the queue and four streams."""
    options = replace(locked().options, limits=LIMITS)
    runner = RunnerLimits(runs_max=4)
    return replace(locked(), options=options, runner=runner, tools=child_tools(), workspace=workspace)


async def output_of(server: Served, key: dict[str, str], text: str) -> str:
    """What a whole answer says, in a stream of its own."""
    body = {"input": text}
    answer = await server.call("POST", f"/api/sessions/{text}/chat/stream", body=body, headers=key)
    assert answer.status == 200, answer.body
    return "done" if b"all done" in answer.body else answer.body.decode()


async def test_a_key_that_takes_every_slot_place_and_stream_keeps_no_other_key_out(tmp_path: Path) -> None:
    """P10: sub-agents count for the key of the run that they work for, and so do their sub-agents."""
    gate = Gate()

    def choose(request: SeenRequest) -> Script:
        task = next(str(one["content"]) for one in reversed(messages(request)) if one["role"] == "user")
        if "wide" in task:
            return [CallTool("delegate", {"task": "deep"}), CallTool("delegate", {"task": "deep"})]
        if "deep" in task:
            return [CallTool("delegate", {"task": "slow"}), CallTool("delegate", {"task": "slow"})]
        return [Wait(gate), Say("all done")] if "slow" in task else [Say("all done")]

    async with (
        ChaosServer(choose=choose) as chaos,
        served(target_of(chaos), setting=shared(tmp_path)) as server,
        AsyncExitStack() as stack,
    ):
        greedy, other = await made(server, "chat", name="greedy"), await made(server, "chat", name="other")
        for nth in range(2):
            status, _ = await server.post("/v1/runs", {"input": f"wide {nth}"}, **greedy)
            assert status == 202
        # Two runs with two sub-agents each wait, and four of the eight below them have a slot.
        await chaos.seen.until_request(2 + 4 + 4)
        while (await server.post("/v1/runs", {"input": "slow"}, **greedy))[0] == 202:
            pass  # until the queue is full
        for _ in range(LIMITS.subscribers_max):
            await stack.enter_async_context(server.http.get(server.url + "/api/events", headers=greedy))
        refused = await server.call("GET", "/api/events", headers=greedy)
        assert refused.code == "too_many_streams"
        assert await output_of(server, other, "quick") == "done"
        _, running = await server.get("/v1/runs?status=queued", **OWNER)
        assert running["data"], "the greedy key's runs still wait"
        gate.open()
