"""Old tool output is removed before a model summarizes, and a failed summary stops no run."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import NoReturn

import pytest

from agent.world import CrashingStore, Effect, World, answer, ending, kinds, messages, process, send
from fakes.crash import Crashed, CrashPoint
from holdfast import events as e
from holdfast.agent.compaction import EXTRACT
from holdfast.chaos import (
    CallTool,
    ChaosServer,
    Finish,
    Hang,
    Say,
    Script,
    SeenRequest,
    Status,
    bad_key,
    context_overflow,
)
from holdfast.interfaces.journal import JournalError, Record
from holdfast.interfaces.tool import ToolCall, ToolResult, ToolTraits
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.policy.tool_names import READ_RESULT
from holdfast.targets import Patience
from stores import MemoryStore

LOOK = ToolTraits(read_only=True, parallel_safe=True)
STORY = "an old story " * 800
SUMMARY = "## Task\nthe story in short"
RUBBISH: list[tuple[Script, str]] = [
    ([Say("I'd rather talk about the weather.")], "The model's answer wasn't a summary."),
    ([Say(SUMMARY), Finish("length")], "The model didn't finish the summary."),
    ([Say("## Task\n" + "la " * 9_000)], "The summary is longer than the messages."),
    ([bad_key()], ""),
]


class Look(Effect):
    """Returns as many characters as its argument says."""

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        del call
        return ToolResult(f"{args['name']} " + "seen " * (int(str(args["chars"])) // 5))


def look() -> Look:
    return Look("look", [], LOOK)


def looks(name: str, chars: int) -> Script:
    return [CallTool("look", {"name": name, "chars": chars})]


def is_asked_to_sum_up(request: SeenRequest) -> bool:
    return str(messages(request)[-1]["content"]).startswith("Below is")


def shown(chaos: ChaosServer, nth: int = -1) -> str:
    return str(chaos.seen.requests[nth].body)


def trimmed(log: list[Record]) -> list[e.ContextTrimmed]:
    return [record.event for record in log if isinstance(record.event, e.ContextTrimmed)]


async def test_the_largest_old_tool_results_go_before_a_model_is_asked_for_a_summary() -> None:
    """P6: no call is spent on it, short and new results stay, and the result can be read again."""
    asked: list[int] = []

    def script(request: SeenRequest) -> Script:
        results = [one for one in messages(request) if one["role"] == "tool"]
        scripts = [looks("first", 16_000), looks("tiny", 500), looks("second", 6_000), looks("new", 8_000)]
        if len(results) < len(scripts):
            return scripts[len(results)]
        if len(results) == len(scripts):
            asked.append(int(str(results[0]["content"]).split("with seq ")[1].split(".")[0]))
            return [CallTool(READ_RESULT, {"seq": asked[0], "first_char": 15_000})]
        return [Say("done")]

    async with (
        ChaosServer(choose=script) as chaos,
        process(chaos, look(), context_window=9_000) as world,
    ):
        run_id = await send(world, "look around")
        log = await world.until("s", e.RunEnded)
        assert answer(log, run_id) == "done"
    (event,) = trimmed(log)
    assert [one.chars for one in event.results] == [16_006]
    assert event.tokens_before > 0.8 * 9_000 > 0.6 * 9_000 >= event.tokens_after
    assert e.ContextCompacted not in kinds(log)
    assert kinds(log).count(e.CallStarted) == 6
    ends = [record.event for record in log if isinstance(record.event, e.ToolEnded)]
    assert ends[-1].result == ends[0].result[15_000:]
    assert "first seen" not in shown(chaos, 4)
    assert "second seen" in shown(chaos, 4)
    sets = [record.event for record in log if isinstance(record.event, e.ContextSet)]
    assert [one.reason for one in sets] == ["first", "trimming"]
    assert READ_RESULT not in sets[0].tools
    assert READ_RESULT in sets[1].tools


class Reads(Effect):
    """Has the name of a built-in tool."""

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        del args, call
        return ToolResult("x = 1")


async def test_a_summary_follows_where_trimming_is_not_enough() -> None:
    """P6: the template asks for the task first; the list of files is ours."""

    def script(request: SeenRequest) -> Script:
        if is_asked_to_sum_up(request):
            return [Say(SUMMARY)]
        said = str(messages(request)[-1]["content"])
        return [CallTool("read_file", {"path": "a.py"})] if said == "look" else [Say("yes")]

    reads = Reads("read_file", [], LOOK)
    async with ChaosServer(choose=script) as chaos, process(chaos, reads, context_window=3_000) as world:
        for nth, text in enumerate(("look", STORY, "and now?"), start=1):
            await send(world, text)
            await world.until("s", e.RunEnded, times=nth)
        log = await world.log("s")
    assert trimmed(log) == []
    (event,) = [record.event for record in log if isinstance(record.event, e.ContextCompacted)]
    assert event.summary == f"{SUMMARY}\n\n## Files\n- a.py (read)"
    calls = [record.event for record in log if isinstance(record.event, e.CallStarted)]
    assert [call.purpose for call in calls if call.call_id == event.call_id] == ["compaction"]


@pytest.mark.parametrize(("bad", "why"), RUBBISH, ids=["off topic", "cut", "too long", "failed"])
async def test_without_a_summary_the_run_goes_on_with_the_whole_conversation(bad: Script, why: str) -> None:
    """P4, P9: it says so, and no other call is spent until the conversation has grown."""

    def script(request: SeenRequest) -> Script:
        return bad if is_asked_to_sum_up(request) else [Say("yes")]

    async with ChaosServer(choose=script) as chaos, process(chaos, context_window=3_000) as world:
        await send(world, STORY)
        await world.until("s", e.RunEnded)
        for nth, text in enumerate(("and now?", "and then?"), start=2):
            run_id = await send(world, text)
            assert answer(await world.until("s", e.RunEnded, times=nth), run_id) == "yes"
        log = await world.log("s")
        assert STORY in shown(chaos)
    failed = [record.event for record in log if isinstance(record.event, e.ContextCompactionFailed)]
    assert len(failed) == 1
    assert why in failed[0].failure
    assert failed[0].failure
    assert sum(is_asked_to_sum_up(one) for one in chaos.seen.requests) == 1
    assert e.ContextCompacted not in kinds(log)


async def test_a_failed_summary_is_tried_again_when_the_conversation_has_grown() -> None:
    bad = [True]

    def script(request: SeenRequest) -> Script:
        if is_asked_to_sum_up(request):
            return [Say("no")] if bad.pop() else [Say(SUMMARY)]
        return [Say("yes")]

    async with ChaosServer(choose=script) as chaos, process(chaos, context_window=3_000) as world:
        for nth, text in enumerate((STORY, "and now?", "more " * 200), start=1):
            bad.append(nth == 2)
            await send(world, text)
            await world.until("s", e.RunEnded, times=nth)
        log = await world.log("s")
    assert kinds(log).count(e.ContextCompactionFailed) == 1
    assert kinds(log).count(e.ContextCompacted) == 1


async def test_a_summary_that_never_comes_is_given_up_after_the_patience() -> None:
    """P3: a hanging call ends by its own deadline, and the run continues."""

    def script(request: SeenRequest) -> Script:
        return [Hang()] if is_asked_to_sum_up(request) else [Say("yes")]

    patience = Patience(first_event_s=0.05)
    async with (
        ChaosServer(choose=script) as chaos,
        process(chaos, context_window=3_000, patience=patience) as world,
    ):
        await send(world, STORY)
        await world.until("s", e.RunEnded)
        run_id = await send(world, "and now?")
        log = await world.until("s", e.RunEnded, times=2)
        assert answer(log, run_id) == "yes"
    assert kinds(log).count(e.ContextCompactionFailed) == 1


async def test_an_overflow_without_a_summary_is_answered_from_an_extract() -> None:
    """P4: what a provider rejects can't be sent again, so the messages are shortened, and people are told."""

    def script(request: SeenRequest) -> Script:
        if is_asked_to_sum_up(request):
            return [Status(400, message="no")]
        return (
            [context_overflow()]
            if STORY in str(messages(request)) and len(messages(request)) > 1
            else [Say("yes")]
        )

    async with ChaosServer(choose=script) as chaos, process(chaos, context_window=20_000) as world:
        await send(world, STORY)
        await world.until("s", e.RunEnded)
        run_id = await send(world, "and now?")
        log = await world.until("s", e.RunEnded, times=2)
        assert answer(log, run_id) == "yes"
        assert EXTRACT.strip() in shown(chaos)
        assert "USER: an old story" in shown(chaos)
    (event,) = [record.event for record in log if isinstance(record.event, e.ContextCompacted)]
    assert event.failure
    assert event.call_id == ""


async def test_an_overflow_is_trimmed_if_that_halves_it() -> None:
    """P6: then no model has to summarize."""

    def script(request: SeenRequest) -> Script:
        said = str(messages(request))
        if "removed to save space" in said:
            return [Say("done")]
        if "old seen" in said:
            return [context_overflow()] if "new seen" in said else looks("new", 1_200)
        return looks("old", 9_000)

    async with ChaosServer(choose=script) as chaos, process(chaos, look(), context_window=20_000) as world:
        await send(world, "look")
        log = await world.until("s", e.RunEnded)
    assert ending(log).outcome == "completed"
    assert len(trimmed(log)) == 1
    assert e.ContextCompacted not in kinds(log)


async def test_a_result_that_is_not_there_is_an_error_for_the_model() -> None:
    """Neither another event nor a seq past the end is a result; a long result comes in parts."""

    def script(request: SeenRequest) -> Script:
        results = [str(one["content"]) for one in messages(request) if one["role"] == "tool"]
        steps: list[Script] = [
            looks("first", 50_000),
            looks("new", 6_000),
            [CallTool(READ_RESULT, {"seq": 1})],
            [CallTool(READ_RESULT, {"seq": 99_999})],
        ]
        if len(results) < len(steps):
            return steps[len(results)]
        if len(results) == len(steps):
            seq = int(results[0].split("with seq ")[1].split(".")[0])
            return [CallTool(READ_RESULT, {"seq": seq, "first_char": 49_990})]
        return [Say("done")]

    async with ChaosServer(choose=script) as chaos, process(chaos, look(), context_window=15_000) as world:
        await send(world, "look")
        log = await world.until("s", e.RunEnded)
        del chaos
    ends = [record.event for record in log if isinstance(record.event, e.ToolEnded)]
    assert [one.ok for one in ends] == [True, True, False, False, True]
    assert ends[-1].result == ends[0].result[49_990:]


def script(request: SeenRequest) -> Script:
    """Looks twice, and needs a trimming and then a summary."""
    if is_asked_to_sum_up(request):
        return [Say(SUMMARY)]
    said = str(messages(request)[-1]["content"])
    called = sum(one["role"] == "tool" for one in messages(request))
    if said == "look":
        return looks("first", 9_000)
    return looks("second", 4_000) if called == 1 and "first" in said else [Say("seen")]


async def live(chaos: ChaosServer, disk: MemoryDisk, crash: CrashPoint, *, after: bool) -> None:
    """One process, from its start until everything is answered or it crashes."""
    died = asyncio.Event()

    def die() -> NoReturn:
        died.set()
        raise Crashed

    crash.die = die
    with suppress(Crashed, JournalError, BaseExceptionGroup):
        async with process(
            chaos, look(), store=CrashingStore(disk, crash, after=after), context_window=3_500
        ) as world:
            user = asyncio.create_task(use(world))
            dead = asyncio.create_task(died.wait())
            await asyncio.wait({user, dead}, return_when=asyncio.FIRST_COMPLETED)
            for task in (user, dead):
                task.cancel()
            await asyncio.wait({user, dead})


async def use(world: World) -> None:
    texts = ["look", STORY, "and now?"]
    queued = sum(isinstance(one.event, e.RunQueued) for one in await world.log("s"))
    if queued:
        await world.until("s", e.RunEnded, times=queued)
    for nth in range(queued, len(texts)):
        await send(world, texts[nth])
        await world.until("s", e.RunEnded, times=nth + 1)


@pytest.mark.parametrize("after", [False, True], ids=["before it is written", "after it is written"])
async def test_a_crash_at_any_append_while_the_conversation_is_shortened_is_only_a_pause(
    *, after: bool
) -> None:
    """P6: every run completes, and each change of the context is on the log once."""
    nth = 0
    for nth in count(1):
        disk, crash = MemoryDisk(), CrashPoint(nth)
        async with ChaosServer(choose=script) as chaos:
            await live(chaos, disk, crash, after=after)
            await live(chaos, disk, CrashPoint(10_000), after=False)
            log = list(await MemoryStore(disk).read("s", limit=10_000))
        outcomes = [record.event.outcome for record in log if isinstance(record.event, e.RunEnded)]
        assert outcomes == ["completed"] * 3, nth
        assert kinds(log).count(e.ContextTrimmed) == 1, nth
        assert kinds(log).count(e.ContextCompacted) == 1, nth
        if not crash.has_crashed:
            break
    assert nth > 20
