"""Compaction: what is summed up, what stays as it was said, and that it comes to an end."""

from collections.abc import Mapping

from agent.world import Effect, answer, ending, kinds, messages, process, send
from holdfast import events as e
from holdfast.agent.loop import CONTINUE
from holdfast.chaos import (
    CallTool,
    ChaosServer,
    Finish,
    Gate,
    Say,
    Script,
    SeenRequest,
    Wait,
    context_overflow,
)
from holdfast.folds.entries import Person, Text
from holdfast.folds.transcript import fold
from holdfast.interfaces.tool import ToolCall, ToolResult
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.values import HistoryMessage
from stores import MemoryStore

ASKED = "Below is"  # how a request for a summary begins
SUMMARY = "## Task\nthe story in short"
LONG = "an old story " * 800


class Look(Effect):
    """Sees a lot."""

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        del args, call
        return ToolResult("seen " * 2_000)


def is_asked_to_sum_up(request: SeenRequest) -> bool:
    return str(messages(request)[-1]["content"]).startswith(ASKED)


def said_to_sum_up(chaos: ChaosServer) -> list[str]:
    return [str(messages(one)[-1]["content"]) for one in chaos.seen.requests if is_asked_to_sum_up(one)]


def in_short(request: SeenRequest) -> Script:
    """Sums up when it is asked to, and else says yes."""
    if not is_asked_to_sum_up(request):
        return [Say("yes")]
    earlier = "EARLIER: " in str(messages(request)[-1]["content"])
    return [Say("## Task\nthe later story in short" if earlier else "## Task\nthe first story in short")]


async def test_a_conversation_that_nears_the_window_is_summed_up_and_nothing_is_lost_for_people() -> None:
    """P6: the summary is an event; the model is shown it in place of the older part, people see all of it."""
    long = "an old story " * 800

    def script(request: SeenRequest) -> Script:
        said = str(messages(request)[-1]["content"])
        return [Say(SUMMARY)] if said.startswith("Below is") else [Say("yes")]

    async with ChaosServer(choose=script) as chaos, process(chaos, context_window=3_000) as world:
        await send(world, long)
        await world.until("s", e.RunEnded)
        run_id = await send(world, "and now?")
        log = await world.until("s", e.RunEnded, times=2)
        assert kinds(log).count(e.ContextCompacted) == 1
        shown = messages(chaos.seen.requests[-1])
        assert "the story in short" in str(shown[0]["content"])
        assert long not in str(shown)
        assert answer(log, run_id) == "yes"
        people_see = fold((record.seq, record.event) for record in log)
        assert any(isinstance(entry, Person) and entry.message.text == long for entry in people_see.entries)


async def test_a_provider_that_says_the_conversation_is_too_long_is_asked_again_with_a_summary() -> None:
    """P3: an explicit overflow is evidence; the same call goes on with the shorter conversation."""
    long = "an old story " * 600

    def script(request: SeenRequest) -> Script:
        said = str(messages(request))
        if "Below is" in said:
            return [Say(SUMMARY)]
        return [context_overflow()] if long in said and "and now?" in said else [Say("yes")]

    async with ChaosServer(choose=script) as chaos, process(chaos, context_window=8_000) as world:
        await send(world, long)
        await world.until("s", e.RunEnded)
        run_id = await send(world, "and now?")
        log = await world.until("s", e.RunEnded, times=2)
        assert answer(log, run_id) == "yes"
        assert kinds(log).count(e.ContextCompacted) == 1
        assert kinds(log).count(e.CallStarted) == 3  # two answers and the summary
        assert len(chaos.seen.requests) == 4  # the one that was too long, too
        people_see = fold((record.seq, record.event) for record in log)
        assert [entry.text for entry in people_see.entries if isinstance(entry, Text)] == ["yes", "yes"]


async def test_what_cannot_be_made_shorter_is_sent_as_it_is_and_not_summed_up_without_end() -> None:
    """P3: instructions and tools may fill the window by themselves."""
    async with (
        ChaosServer(choose=in_short) as chaos,
        process(chaos, context_window=1_000, instructions="be careful " * 400) as world,
    ):
        await send(world, "an old story")
        await world.until("s", e.RunEnded)
        await send(world, "and now?")
        log = await world.until("s", e.RunEnded, times=2)
        assert [r.event.outcome for r in log if isinstance(r.event, e.RunEnded)] == ["completed"] * 2
        assert "and now?" in str(messages(chaos.seen.requests[-1]))
        assert said_to_sum_up(chaos) == []  # a summary of so little saves nothing


async def test_a_second_summary_holds_what_the_first_one_said() -> None:
    """P6: the first stands behind the message that it was made for, and goes with what is older."""
    async with ChaosServer(choose=in_short) as chaos, process(chaos, context_window=3_000) as world:
        for nth, text in enumerate((LONG, LONG, "and now?"), start=1):
            await send(world, text)
            await world.until("s", e.RunEnded, times=nth)
        first, second = said_to_sum_up(chaos)
        assert "EARLIER" not in first
        assert "EARLIER: ## Task\nthe first story in short" in second
        assert "the later story in short" in str(messages(chaos.seen.requests[-1])[0]["content"])


async def test_the_history_that_came_with_a_run_is_part_of_its_summary() -> None:
    """P6: what the caller told is not lost when the run grows too long."""

    def script(request: SeenRequest) -> Script:
        if is_asked_to_sum_up(request):
            return [Say(SUMMARY)]
        if sum(message["role"] == "tool" for message in messages(request)) or "in short" in str(
            messages(request)
        ):
            return [Say("done")]
        return [Say("I look"), CallTool("look")]

    history = (
        HistoryMessage(role="user", content="my cat is called Mia " * 60),
        HistoryMessage(role="assistant", content="a fine name"),
        HistoryMessage(role="tool", content="age: 7"),
    )
    async with (
        ChaosServer(choose=script) as chaos,
        process(chaos, Look("look", []), context_window=3_000) as world,
    ):
        sent = await world.inbox.send("s", IncomingMessage(text="look", history=history))
        assert isinstance(sent, Sent)
        log = await world.until("s", e.RunEnded)
        assert ending(log).outcome == "completed"
        (asked,) = said_to_sum_up(chaos)
        assert "USER: my cat is called Mia" in asked
        assert "TOOL: age: 7" in asked
        assert "ASSISTANT: a fine name" in asked


async def test_a_summary_made_for_a_history_says_nothing_about_the_session() -> None:
    """P6: the next run of the session has none of its own messages taken for summed up."""

    def script(request: SeenRequest) -> Script:
        if is_asked_to_sum_up(request):
            return [Say(SUMMARY)]
        called = any(message["role"] == "tool" for message in messages(request))
        is_first = "look" in str(messages(request)[-1]["content"]) and not called
        return [Say("I look"), CallTool("look")] if is_first else [Say("done")]

    history = (HistoryMessage(role="user", content="told elsewhere " * 90),)
    async with (
        ChaosServer(choose=script) as chaos,
        process(chaos, Look("look", []), context_window=3_000) as world,
    ):
        await send(world, "my cat is called Mia")
        await world.until("s", e.RunEnded)
        await world.inbox.send("s", IncomingMessage(text="look", history=history))
        await world.until("s", e.RunEnded, times=2)
        assert len(said_to_sum_up(chaos)) == 1
        await send(world, LONG)
        await world.until("s", e.RunEnded, times=3)
        await send(world, "and now?")
        await world.until("s", e.RunEnded, times=4)
        assert "my cat is called Mia" in said_to_sum_up(chaos)[1]


async def test_a_cut_answer_is_continued_where_our_own_count_has_it_summed_up() -> None:
    """P4: no request ends with the model's own words."""
    cut = [Say("first half " * 900), Finish("length")]
    scripts = [[Say("yes")], cut, [Say(SUMMARY)], [Say("second half")]]
    async with ChaosServer(*scripts) as chaos, process(chaos, context_window=3_000) as world:
        await send(world, "long ago " * 200)
        await world.until("s", e.RunEnded)
        await send(world, "now")
        log = await world.until("s", e.RunEnded, times=2)
        assert kinds(log).count(e.ContextCompacted) == 1
        assert str(messages(chaos.seen.request(4))[-1]["content"]).endswith(CONTINUE)


async def test_a_cut_answer_is_continued_after_a_crash_in_its_second_half() -> None:
    """P4, P6: what the model is asked after the restart ends with a wish, not with its own words."""
    disk = MemoryDisk()
    gate = Gate()
    cut = [Say("first half, "), Finish("length")]
    async with ChaosServer(cut, [Say("second"), Wait(gate)], [Say("second half")]) as chaos:
        frozen = MemoryStore(disk)
        async with process(chaos, store=frozen) as world:
            await send(world)
            await world.until("s", e.TextDelta, times=2)
            await frozen.close()
        gate.open()
        async with process(chaos, store=MemoryStore(disk)) as world:
            log = await world.until("s", e.RunEnded)
            assert ending(log).outcome == "completed"
        assert str(messages(chaos.seen.request(3))[-1]["content"]).endswith(CONTINUE)
