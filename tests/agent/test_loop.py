"""The loop: turns, tools, people, steers, budgets, and truthful endings."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agent.world import (
    Effect,
    answer,
    asks_about,
    ending,
    kinds,
    messages,
    people,
    process,
    roles,
    send,
    tool_ends,
)
from holdfast import events as e
from holdfast.agent.calls import UNKNOWN
from holdfast.agent.loop import CONTINUE, SHORTER
from holdfast.chaos import (
    CallTool,
    ChaosServer,
    CutCall,
    Finish,
    Gate,
    Refuse,
    Say,
    Script,
    Status,
    Think,
    Wait,
    context_overflow,
)
from holdfast.interfaces.tool import ToolCall, ToolResult, ToolTraits
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.redaction import Redactor
from holdfast.runner.asks import Answered, ApprovalVerdict, Stale, UnknownAsk
from holdfast.runner.inbox import IncomingMessage, Sent
from stores import MemoryStore


async def test_tools_run_between_answers_and_their_results_reach_the_model_in_call_order() -> None:
    done: list[str] = []
    script = [Say("let me see"), CallTool("one", {"n": 1}), CallTool("two", {"n": 2})]
    async with (
        ChaosServer(script, [Say("both done")]) as chaos,
        process(chaos, Effect("one", done), Effect("two", done)) as world,
    ):
        run_id = await send(world)
        log = await world.until("s", e.RunEnded)
        assert ending(log).outcome == "completed"
        assert answer(log, run_id) == "both done"
        assert done == ["one {'n': 1}", "two {'n': 2}"]
        assert roles(chaos.seen.request(2)) == ["user", "assistant", "tool", "tool"]
        started, ended = kinds(log).index(e.ToolStarted), kinds(log).index(e.ToolEnded)
        assert started < ended


async def test_an_answer_of_only_white_space_is_an_empty_one_and_is_asked_for_again() -> None:
    """P1: once more, not until the budget is used up."""
    async with ChaosServer([Say(" \n"), Say("\t")], [Say("here")]) as chaos, process(chaos) as world:
        run_id = await send(world)
        log = await world.until("s", e.RunEnded)
        assert ending(log).outcome == "completed"
        assert answer(log, run_id) == "here"
        (failed,) = [one.event for one in log if isinstance(one.event, e.AttemptFailed)]
        assert failed.failure.kind == "empty"


async def test_a_model_that_only_ever_says_white_space_fails_soon() -> None:
    """P1: the run ends with the reason."""
    async with ChaosServer(choose=lambda _: [Say("  ")]) as chaos, process(chaos) as world:
        await send(world)
        log = await world.until("s", e.RunEnded)
        failure = ending(log).failure
        assert ending(log).outcome == "failed"
        assert failure is not None
        assert failure.kind == "empty"


async def test_unknown_tools_and_bad_arguments_are_results_that_the_model_can_act_on() -> None:
    script = [CallTool("nothing", {}), CallTool("ask_user", {"txet": "?"})]
    async with ChaosServer(script, [Say("sorry")]) as chaos, process(chaos) as world:
        await send(world)
        log = await world.until("s", e.RunEnded)
        unknown, misspelt = tool_ends(log)
        assert "Unknown tool 'nothing'" in unknown.result
        assert "text" in misspelt.result
        assert {unknown.ending, misspelt.ending} == {"not_started"}
        assert ending(log).outcome == "completed"


async def test_reading_tools_of_one_turn_run_side_by_side() -> None:
    """P10: the second starts although the first has not ended."""
    both = asyncio.Barrier(2)

    class Look(Effect):
        async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
            await both.wait()
            return await super().run(args, call)

    traits = ToolTraits(read_only=True, parallel_safe=True)
    looks = [Look(name, [], traits) for name in ("one", "two")]
    script = [CallTool("one"), CallTool("two")]
    async with ChaosServer(script, [Say("seen")]) as chaos, process(chaos, *looks) as world:
        await send(world)
        assert ending(await world.until("s", e.RunEnded)).outcome == "completed"


async def test_an_approval_is_asked_for_and_the_action_happens_only_after_it() -> None:
    """P8: the answer names the id; before it nothing happens."""
    done: list[str] = []
    async with (
        ChaosServer([CallTool("one")], [Say("ok")]) as chaos,
        process(chaos, Effect("one", done), judge=asks_about("one")) as world,
    ):
        await send(world)
        log = await world.until("s", e.ApprovalAsked)
        asked = log[-1].event
        assert isinstance(asked, e.ApprovalAsked)
        assert not done
        wrong = ApprovalVerdict("once")
        assert await world.inbox.answer("apr_other", wrong) == UnknownAsk("apr_other")
        right = ApprovalVerdict("once")
        assert await world.inbox.answer(asked.approval_id, right) == Answered(asked.approval_id)
        assert await world.inbox.answer(asked.approval_id, right) == Stale(asked.approval_id)
        await world.until("s", e.RunEnded)
        assert done == ["one {}"]


async def test_a_denial_reaches_the_model_with_its_reason() -> None:
    """P8: deny means that nothing happens, and the model hears the true cause."""
    done: list[str] = []
    async with (
        ChaosServer([CallTool("one")], [Say("ok")]) as chaos,
        process(chaos, Effect("one", done), judge=asks_about("one")) as world,
    ):
        await send(world)
        asked = (await world.until("s", e.ApprovalAsked))[-1].event
        assert isinstance(asked, e.ApprovalAsked)
        deny = ApprovalVerdict("deny", reason="not today")
        await world.inbox.answer(asked.approval_id, deny)
        (ended,) = tool_ends(await world.until("s", e.RunEnded))
        assert (ended.ending, ended.result) == ("denied", "This was denied: not today")
        assert not done


async def test_an_approval_that_nobody_gives_expires_and_a_late_answer_approves_nothing() -> None:
    """P8: silence is never consent."""
    done: list[str] = []
    async with (
        ChaosServer([CallTool("one")], [Say("ok")]) as chaos,
        process(chaos, Effect("one", done), judge=asks_about("one"), asks_expire_s=0.05) as world,
    ):
        await send(world)
        log = await world.until("s", e.RunEnded)
        (ended,) = tool_ends(log)
        assert ended.ending == "expired"
        assert ending(log).outcome == "completed"
        asked = next(record.event for record in log if isinstance(record.event, e.ApprovalAsked))
        late = ApprovalVerdict("once")
        assert await world.inbox.answer(asked.approval_id, late) == Stale(asked.approval_id)
        assert not done


async def test_a_question_is_answered_by_a_person() -> None:
    """P8: questions use the same machinery."""
    script = [CallTool("ask_user", {"text": "which colour?", "choices": ["red", "blue"]})]
    async with ChaosServer(script, [Say("blue it is")]) as chaos, process(chaos) as world:
        await send(world)
        answering = asyncio.create_task(people(world, "s"))
        log = await world.until("s", e.RunEnded)
        answering.cancel()
        (ended,) = tool_ends(log)
        assert ended.result == "blue"


async def test_a_steer_becomes_a_user_message_at_the_next_call() -> None:
    gate = Gate()
    script = [Say("on my way"), CallTool("one"), Wait(gate)]
    async with (
        ChaosServer(script, [Say("as you wish")]) as chaos,
        process(chaos, Effect("one", [])) as world,
    ):
        run_id = await send(world)
        await gate.reached()
        sent = await world.inbox.steer("s", run_id, message=IncomingMessage(text="rather left"))
        assert isinstance(sent, Sent)
        gate.open()
        log = await world.until("s", e.RunEnded)
        assert roles(chaos.seen.request(2)) == ["user", "assistant", "tool", "user"]
        assert kinds(log).count(e.MessageDispatched) == 2
        assert answer(log, run_id) == "as you wish"


async def test_a_steer_that_comes_too_late_becomes_the_next_run() -> None:
    """P2: an accepted input is never lost, whenever it came."""
    gate = Gate()
    async with ChaosServer([Say("first"), Wait(gate)], [Say("second")]) as chaos, process(chaos) as world:
        run_id = await send(world)
        await gate.reached()
        # Stop and steer in one breath: the run ends without another call.
        await world.inbox.steer("s", run_id, message=IncomingMessage(text="and this?"))
        await world.inbox.stop("s", run_id)
        log = await world.until("s", e.RunEnded, times=1)
        assert isinstance(log[-1].event, e.RunEnded)
        assert await world.inbox.put("s", e.QueueResumed(at_ms=1))
        log = await world.until("s", e.RunEnded, times=2)
        assert [record.event.outcome for record in log if isinstance(record.event, e.RunEnded)] == [
            "cancelled",
            "completed",
        ]


async def test_a_redirect_cancels_the_answer_keeps_what_was_said_and_goes_on_in_the_same_run() -> None:
    gate = Gate()
    async with ChaosServer([Say("left"), Wait(gate)], [Say("right")]) as chaos, process(chaos) as world:
        run_id = await send(world)
        await gate.reached()
        message = IncomingMessage(text="no, right", when_busy="redirect")
        sent = await world.inbox.send("s", message)
        assert isinstance(sent, Sent)
        assert sent.run_id == run_id
        log = await world.until("s", e.RunEnded)
        assert roles(chaos.seen.request(2)) == ["user", "assistant", "user"]
        assert ending(log).outcome == "completed"


async def test_a_redirect_that_is_taken_back_at_once_lets_the_run_go_on() -> None:
    """P4: nobody says anything instead, so the model is asked to go on with what it was saying."""

    class TakesBack(MemoryStore):
        async def append_run(self, session_id: str, events: Sequence[e.Event], **rest: Any) -> Any:
            if any(isinstance(event, e.CallEnded) and event.finish == "redirected" for event in events):
                said = [record.event for record in await self.read("s")]
                ids = [one.message_id for one in said if isinstance(one, e.MessageAccepted)]
                await self.append("s", [e.MessageRemoved(at_ms=1, message_id=ids[-1])])
            return await super().append_run(session_id, events, **rest)

    script = [Say("one, two, "), Wait(Gate())]
    async with ChaosServer(script, [Say("three")]) as chaos, process(chaos, store=TakesBack()) as world:
        run_id = await send(world)
        await world.until("s", e.TextDelta)
        steer = await world.inbox.steer("s", run_id, message=IncomingMessage(text="no"), mode="redirect")
        assert isinstance(steer, Sent)
        log = await world.until("s", e.RunEnded)
        assert ending(log).outcome == "completed"
        assert answer(log, run_id) == "one, two, three"


async def test_a_message_for_a_busy_session_waits_its_turn() -> None:
    """P2: queued is honest, and nothing is lost."""
    gate = Gate()
    async with ChaosServer([Say("one"), Wait(gate)], [Say("two")]) as chaos, process(chaos) as world:
        await send(world, "first")
        await gate.reached()
        second = await send(world, "second")
        assert (await world.inbox.state("s")).runs[second].status == "queued"
        gate.open()
        log = await world.until("s", e.RunEnded, times=2)
        assert answer(log, second) == "two"


async def test_a_cut_answer_is_continued_at_most_three_times() -> None:
    """P4: truncated is not completed."""
    cut = [Say("more "), Finish("length")]
    async with ChaosServer(cut, after_last="repeat") as chaos, process(chaos) as world:
        run_id = await send(world)
        log = await world.until("s", e.RunEnded)
        assert ending(log).outcome == "truncated"
        assert len(chaos.seen.requests) == 4
        assert answer(log, run_id) == "more " * 4
        assert messages(chaos.seen.request(2))[-1]["content"] == CONTINUE


async def test_a_cut_answer_is_continued_after_a_compaction_too() -> None:
    """P4: a conversation that fills its window is cut, then refused, then summed up, and goes on."""
    cut = [Say("first half, "), Finish("length")]
    scripts = [
        [Say("an old story")],
        cut,
        [context_overflow()],
        [Say("## Task\na summary")],
        [Say("second half")],
    ]
    async with ChaosServer(*scripts) as chaos, process(chaos) as world:
        await send(world, "long ago " * 50)
        await world.until("s", e.RunEnded)
        run_id = await send(world, "now")
        log = await world.until("s", e.RunEnded, times=2)
        assert [record.event.outcome for record in log if isinstance(record.event, e.RunEnded)] == [
            "completed",
            "completed",
        ]
        assert e.ContextCompacted in kinds(log)
        assert answer(log, run_id) == "first half, second half"
        assert str(messages(chaos.seen.request(5))[-1]["content"]).endswith(CONTINUE)


NOTHING_TO_USE: list[Script] = [
    [Think("hm"), Finish("length")],
    [CutCall("one", {"text": "too long"}), Finish("length")],
    [Finish("length")],
]


@pytest.mark.parametrize("cut", NOTHING_TO_USE)
async def test_an_answer_that_was_cut_before_it_said_anything_is_not_asked_for_without_end(
    cut: Script,
) -> None:
    """P4: the model is told to be brief, three times at most, and then the run says what happened."""
    async with ChaosServer(cut, after_last="repeat") as chaos, process(chaos) as world:
        await send(world)
        assert ending(await world.until("s", e.RunEnded)).outcome == "truncated"
        assert len(chaos.seen.requests) == 4
        assert str(messages(chaos.seen.request(2))[-1]["content"]).endswith(SHORTER)


async def test_a_refusal_is_an_outcome_of_its_own() -> None:
    """P4: a refusal is shown as such."""
    async with ChaosServer([Refuse()]) as chaos, process(chaos) as world:
        await send(world)
        assert ending(await world.until("s", e.RunEnded)).outcome == "refused"


async def test_an_effect_whose_outcome_is_unknown_is_said_to_be_so_and_repeating_it_asks() -> None:
    """P6, P8: after a crash between intent and result nobody repeats the action without being asked."""
    disk, done, begun = MemoryDisk(), list[str](), asyncio.Event()

    class Dies(Effect):
        async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
            done.append("begun")
            begun.set()
            await asyncio.get_running_loop().create_future()
            raise AssertionError(args, call)

    async with ChaosServer([CallTool("one")], [CallTool("one")], [Say("left it")]) as chaos:
        frozen = MemoryStore(disk)
        async with process(chaos, Dies("one", done), store=frozen) as world:
            await send(world)
            await begun.wait()
            await frozen.close()  # what happens now in this process reaches no disk
        async with process(chaos, Effect("one", done), store=MemoryStore(disk)) as world:
            log = await world.until("s", e.ApprovalAsked)
            (ended,) = tool_ends(log)
            assert (ended.ending, ended.result) == ("unknown", UNKNOWN)
            assert done == ["begun"]
            asked = log[-1].event
            assert isinstance(asked, e.ApprovalAsked)
            assert "unknown whether it took effect" in asked.findings[0]


async def test_approvals_of_one_answer_are_all_open_at_once_and_settled_in_any_order() -> None:
    """P8: approving the second and denying the first runs the second, and only that."""
    done: list[str] = []
    script = [CallTool("act", {"n": 1}), CallTool("act", {"n": 2})]
    async with (
        ChaosServer(script, [Say("ok")]) as chaos,
        process(chaos, Effect("act", done), judge=asks_about("act")) as world,
    ):
        await send(world)
        log = await world.until("s", e.ApprovalAsked, times=2)
        first, second = [record.event for record in log if isinstance(record.event, e.ApprovalAsked)]
        for asked, choice in ((second, "once"), (first, "deny")):
            answered = ApprovalVerdict("once" if choice == "once" else "deny")
            assert await world.inbox.answer(asked.approval_id, answered) == Answered(asked.approval_id)
        log = await world.until("s", e.RunEnded)
        assert done == ["act {'n': 2}"]
        assert [ended.ending for ended in tool_ends(log)] == ["denied", "finished"]


async def test_the_words_of_a_failure_hold_no_secret_in_the_ending_either() -> None:
    """P11: also one that is not the key of the target that says it."""
    secret = "key-of-somebody-else"  # noqa: S105  # it is to be seen nowhere
    refused = Status(400, message=f"what is {secret}?")
    async with (
        ChaosServer([refused], after_last="repeat") as chaos,
        process(chaos, secrets=Redactor([secret])) as world,
    ):
        await world.inbox.send("s", IncomingMessage(text="hi"))
        log = await world.until("s", e.RunEnded)
    ended = log[-1].event
    assert isinstance(ended, e.RunEnded)
    assert ended.failure is not None
    assert "what is [redacted]?" in ended.failure.text
    assert secret not in str(log)
