"""What a run left unanswered is never taken for a part of what is said later."""

from datetime import UTC, datetime

from agent.world import Effect, ending, messages, process, send
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Script, SeenRequest, Status, Wait
from holdfast.folds.context import UNANSWERED


async def test_an_input_whose_run_failed_is_not_acted_on_with_the_next_one() -> None:
    """P4: the model is shown when it was given up, and the same words in every later call."""
    refused = Status(400, message="no")
    async with ChaosServer([refused], [CallTool("one")], [Say("hello")]) as chaos:
        async with process(chaos, Effect("one", [])) as world:
            await send(world, "delete all snapshots NOW")
            failed = ending(await world.until("s", e.RunEnded))
            assert failed.outcome == "failed"
            await send(world, "hello")
            await world.until("s", e.RunEnded, times=2)
        when = datetime.fromtimestamp(failed.at_ms / 1000, tz=UTC)
        mark = UNANSWERED.format(why="the run failed", when=f"{when:%Y-%m-%d %H:%M}")
        shown = [messages(request)[0]["content"] for request in chaos.seen.requests]
        assert shown == [
            "delete all snapshots NOW",
            *[f"delete all snapshots NOW\n\n{mark}\n\nhello"] * 2,
        ]


async def test_a_summary_tells_which_wishes_came_to_nothing() -> None:
    """P4: what was given up does not come back as something that is still to do."""
    long = "an old story " * 800

    def script(request: SeenRequest) -> Script:
        said = str(messages(request)[-1]["content"])
        if said.startswith("Below is"):
            return [Say("## Task\nin short")]
        return [Status(400, message="no")] if said == "delete all snapshots" else [Say("yes")]

    async with ChaosServer(choose=script) as chaos, process(chaos, context_window=3_000) as world:
        for times, text in enumerate(("delete all snapshots", long, "and now?"), 1):
            await send(world, text)
            await world.until("s", e.RunEnded, times=times)
        asked = [str(messages(request)[-1]["content"]) for request in chaos.seen.requests]
        told = [text for text in asked if text.startswith("Below is") and "snapshots" in text]
        assert told
        assert all("snapshots\n\nHERE THE RUN ENDED: Failed" in text for text in told)


async def test_what_is_stopped_while_it_waits_does_not_reach_the_run_under_way() -> None:
    """P5: the next call of the run is as if it had never been sent."""
    gate = Gate()
    async with ChaosServer([CallTool("one"), Wait(gate)], [Say("done")]) as chaos:
        async with process(chaos, Effect("one", [])) as world:
            await send(world, "look around")
            await gate.reached()
            waiting = await send(world, "delete all snapshots")
            assert await world.inbox.stop("s", waiting)
            await world.until("s", e.RunEnded)
            gate.open()
            await world.until("s", e.RunEnded, times=2)
        asked = [request.body for request in chaos.seen.requests]
    assert len(asked) == 2
    assert "snapshots" not in str(asked)


async def test_what_is_stopped_while_it_waits_is_in_no_summary() -> None:
    """P5: neither the message nor its end is told, and the summary covers what the run was given."""
    gate, story = Gate(), "an old story " * 800

    def script(request: SeenRequest) -> Script:
        said = str(messages(request)[-1]["content"])
        if said.startswith("Below is"):
            return [Say("## Task\nin short")]
        return [Say(story), CallTool("one"), Wait(gate)] if said == "look around" else [Say("done")]

    async with ChaosServer(choose=script) as chaos:
        async with process(chaos, Effect("one", []), context_window=3_000) as world:
            await send(world, "look around")
            await gate.reached()
            waiting = await send(world, "delete all snapshots")
            assert await world.inbox.stop("s", waiting)
            await world.until("s", e.RunEnded)
            gate.open()
            await world.until("s", e.RunEnded, times=2)
            await send(world, "and now?")
            await world.until("s", e.RunEnded, times=3)
        asked = str([request.body for request in chaos.seen.requests])
    assert "Below is" in asked
    assert "snapshots" not in asked
    assert "HERE THE RUN ENDED" not in asked
