"""Stopping over HTTP: repeatable, truthful, and nothing is left."""

import asyncio

from holdfast.chaos import CallTool, ChaosServer, ClosedBy, Gate, Hang, Say, Wait
from server.toolbox import Stubborn
from serving import PATIENT, Setting, limited, served, target_of


async def test_a_stop_ends_the_run_its_stream_and_the_upstream_connection() -> None:
    """S004-17, S004-22, P5: stopping, then cancelled; the model sees one request and its close."""
    async with (
        ChaosServer([Say("hal"), Hang()]) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        run_id = await server.start()
        reading = asyncio.create_task(server.all_frames(run_id))
        await chaos.seen.until_body(1)
        status, answer = await server.post(f"/v1/runs/{run_id}/stop")
        assert (status, answer) == (200, {"run_id": run_id, "status": "stopping"})
        _, shown = await server.get(f"/v1/runs/{run_id}")
        assert shown["status"] in {"stopping", "cancelled"}
        frames = await reading
        assert frames[-1].data["event"] == "run.cancelled"
        assert await chaos.seen.until_closed(1) in {ClosedBy.PEER, ClosedBy.PEER_RESET}
        _, shown = await server.get(f"/v1/runs/{run_id}")
        assert (shown["status"], shown["cause"]) == ("cancelled", "user_stop")
        assert len(chaos.seen.requests) == 1


async def test_stop_stop_stop() -> None:
    """S004-20: 200 and 200 while it runs, 404 after its end; with ?total=true the final state."""
    tool = Stubborn()
    async with (
        ChaosServer([CallTool("stubborn", {})]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=Setting(tools=(tool,))) as server,
    ):
        run_id = await server.start()
        await tool.running.wait()
        first, second = await asyncio.gather(
            server.post(f"/v1/runs/{run_id}/stop"), server.post(f"/v1/runs/{run_id}/cancel", b"")
        )
        assert (first[0], second[0]) in {(200, 200), (200, 404), (404, 200)}
        await server.ended(run_id)
        status, answer = await server.post(f"/v1/runs/{run_id}/stop")
        assert (status, answer["error"]["code"]) == (404, "run_not_found")
        status, final = await server.post(f"/v1/runs/{run_id}/stop?total=true")
        assert (status, final["status"]) == (200, "cancelled")


async def test_a_tool_whose_stop_code_raises_does_not_break_the_stop() -> None:
    """S004-21: it is interrupted once, and the run ends as stopped."""
    tool = Stubborn()
    async with (
        ChaosServer([CallTool("stubborn", {})]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=Setting(tools=(tool,))) as server,
    ):
        run_id = await server.start()
        await tool.running.wait()
        assert (await server.post(f"/v1/runs/{run_id}/stop"))[0] == 200
        assert (await server.ended(run_id))["status"] == "cancelled"
        assert len(chaos.seen.requests) == 1
    assert tool.stops == 1


async def test_a_queued_run_can_be_stopped_and_the_next_message_is_not_touched() -> None:
    """P5: what is stopped is that run and no other."""
    async with (
        ChaosServer([Hang()], [Say("next")]) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        first = await server.start("a", session_id="s")
        await chaos.seen.until_body(1)
        second = await server.start("b", session_id="s")
        assert (await server.post(f"/v1/runs/{second}/stop"))[0] == 200
        assert (await server.ended(second))["status"] == "cancelled"
        assert (await server.post(f"/v1/runs/{first}/stop"))[0] == 200
        assert (await server.ended(first))["status"] == "cancelled"
        third = await server.start("c", session_id="s")
        assert (await server.ended(third))["output"] == "next"


async def test_a_stop_holds_what_waited_then_and_nothing_that_is_sent_later() -> None:
    """P3: the next message is neither swallowed nor held, whether it comes alone or behind another."""
    gate = Gate()
    scripts = [Hang()], [Say("c"), Wait(gate)], [Say("d")], [Say("b")]
    async with ChaosServer(*scripts) as chaos, served(target_of(chaos, patience=PATIENT)) as server:
        first = await server.start("a", session_id="s")
        await chaos.seen.until_body(1)
        held = await server.start("b", session_id="s")
        assert (await server.post(f"/v1/runs/{first}/stop"))[0] == 200
        assert (await server.ended(first))["status"] == "cancelled"
        third = await server.start("c", session_id="s")
        await gate.reached()
        fourth = await server.start("d", session_id="s")
        gate.open()
        assert (await server.ended(third))["output"] == "c"
        assert (await server.ended(fourth))["output"] == "d"
        assert (await server.get(f"/v1/runs/{held}"))[1]["status"] == "queued"
        assert (await server.post("/api/sessions/s/queue/resume"))[0] == 200
        assert (await server.ended(held))["output"] == "b"


async def test_a_second_stop_holds_what_waits_at_that_time() -> None:
    """P5: a pause whose messages are gone does not stand for one that is due now."""
    async with (
        ChaosServer([Hang()], [Hang()], [Say("last")]) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        for nth in (1, 2):
            current = await server.start(f"current {nth}", session_id="s")
            await chaos.seen.until_body(nth)
            behind = await server.start(f"behind {nth}", session_id="s")
            assert (await server.post(f"/v1/runs/{current}/stop"))[0] == 200
            assert (await server.ended(current))["status"] == "cancelled"
            assert (await server.get(f"/v1/runs/{behind}"))[1]["status"] == "queued"
            assert (await server.post(f"/v1/runs/{behind}/stop"))[0] == 200
        assert (await server.ended(await server.start("last", session_id="s")))["output"] == "last"
        assert len(chaos.seen.requests) == 3


async def test_a_client_that_leaves_takes_its_run_along_only_if_it_said_so() -> None:
    """P7: a lost client never stops a run, unless the run was started to end with its readers."""
    async with (
        ChaosServer([Say("hal"), Hang()], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT), setting=limited(disconnect_grace_s=0.01)) as server,
    ):
        tied = await server.start(session_id="a", on_disconnect="cancel")
        free = await server.start(session_id="b")
        await chaos.seen.until_body(2)
        for run_id in (free, tied):
            async with server.http.get(f"{server.url}/v1/runs/{run_id}/events") as stream:
                await stream.content.readline()
        await server.until_streams(0)
        _, shown = await server.get(f"/v1/runs/{free}")
        assert shown["status"] == "running"
        async for frame in server.follow("/api/sessions/a/events"):
            if frame.data["type"] == "run.ended":
                assert (frame.data["run_id"], frame.data["cause"]) == (tied, "client_gone")
                break
