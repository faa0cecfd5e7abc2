"""Tools that ask a person: answers, refusals, patience, and questions that outlive a crash."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import NoReturn

import pytest
from typing_extensions import override

from agent.world import CrashingStore, Effect, kinds, people, process, send, tool_ends
from fakes.crash import Crashed, CrashPoint
from holdfast import (
    Agent,
    AnswerNeeded,
    ConfigurationError,
    Deny,
    NobodyAnswered,
    PendingQuestion,
    ToolContext,
    tool,
)
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Script, SeenRequest
from holdfast.chaos import Say as Said
from holdfast.events import ToolEnded
from holdfast.interfaces.journal import JournalError
from holdfast.interfaces.tool import ToolCall, ToolResult, ToolTraits
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.testing import Call, Say, ScriptedModel
from stores import MemoryStore

PAINTS = [Call("paint"), Say("Done.")]


async def paint(context: ToolContext) -> str:
    """Paint the wall."""
    colour, room = await asyncio.gather(
        context.ask("Which colour?", choices=("red", "blue")), context.ask("Where?")
    )
    return f"{colour} in {room}"


@tool
async def sleep_long(context: ToolContext) -> str:
    """Wait for ever."""
    del context
    await asyncio.get_running_loop().create_future()
    return ""


async def results(agent: Agent) -> list[ToolEnded]:
    result = await agent.run("Paint the wall")
    assert result.output == "Done."
    return [event for event in result.events if isinstance(event, ToolEnded)]


async def test_a_tools_patience_rests_while_it_asks() -> None:
    """P3: people may take longer than the tool may."""

    @tool(name="paint", patience_s=1e-9)  # over at the next step of the loop
    async def in_no_time(context: ToolContext) -> str:
        """Paint the wall."""
        return await context.ask("Which colour?")

    async def answer(_: PendingQuestion) -> str:
        return "blue"

    (ended,) = await results(Agent(ScriptedModel(PAINTS), tools=[in_no_time], on_question=answer))
    assert (ended.result, ended.ok) == ("blue", True)


async def test_a_tool_can_ask_two_questions_at_once() -> None:
    seen: list[PendingQuestion] = []

    async def answer(question: PendingQuestion) -> str:
        seen.append(question)
        return "blue" if question.choices else "the hall"

    (ended,) = await results(Agent(ScriptedModel(PAINTS), tools=[paint], on_question=answer))
    assert (ended.result, ended.ok) == ("blue in the hall", True)
    assert {one.text: one.choices for one in seen} == {"Which colour?": ("red", "blue"), "Where?": ()}


async def test_a_tool_whose_question_has_no_answer_ends_there_and_the_others_question_is_withdrawn() -> None:
    """P8: neither a refusal nor a handler that fails is an answer."""

    async def refuse(question: PendingQuestion) -> str | Deny:
        if question.choices:
            return Deny("Ask me tomorrow.")
        return await asyncio.get_running_loop().create_future()

    agent = Agent(ScriptedModel(PAINTS), tools=[paint], on_question=refuse)
    result = await agent.run("Paint the wall")
    (ended,) = [event for event in result.events if isinstance(event, ToolEnded)]
    assert (ended.result, ended.ending) == ("This wasn't answered: Ask me tomorrow.", "denied")
    happened = [type(event) for event in result.events]
    assert happened.count(e.QuestionWithdrawn) == 1
    assert happened.index(e.QuestionWithdrawn) < happened.index(ToolEnded)

    async def fail(question: PendingQuestion) -> str:
        raise KeyError(question.id)

    (ended,) = await results(Agent(ScriptedModel(PAINTS), tools=[paint], on_question=fail))
    assert ended.result == "This wasn't answered: the program couldn't answer (KeyError)"


async def test_a_tool_can_go_on_without_an_answer() -> None:
    async def colour(context: ToolContext) -> str:
        """The colour that the user wants."""
        try:
            return await context.ask("Which colour?")
        except NobodyAnswered as error:
            return f"red, because: {error}"

    async def refuse(_: PendingQuestion) -> Deny:
        return Deny("no idea")

    model = ScriptedModel([Call("colour"), Say("Done.")])
    (ended,) = await results(Agent(model, tools=[colour], on_question=refuse))
    assert ended.result == "red, because: This wasn't answered: no idea"


async def test_a_question_that_no_program_answers_is_raised_and_can_be_answered_by_its_id() -> None:
    async with Agent(ScriptedModel(PAINTS), tools=[paint]) as agent:
        run = await agent.start("Paint the wall")
        for said in ("blue", "the hall"):
            with pytest.raises(
                AnswerNeeded, match=r"A tool asks: W.* pass on_question= to the agent"
            ) as needed:
                await run.result()
            await run.answer(needed.value.question_id, said)
            with pytest.raises(ConfigurationError, match="was answered before"):
                await run.answer(needed.value.question_id, said)
        assert (await run.result()).output == "Done."


async def test_a_question_must_say_something() -> None:
    async def ask(context: ToolContext) -> str:
        """Ask."""
        return await context.ask("")

    (ended,) = await results(Agent(ScriptedModel([Call("ask"), Say("Done.")]), tools=[ask]))
    assert "ValidationError" in ended.result


async def test_an_async_tool_that_takes_too_long_is_stopped() -> None:
    slow = tool(sleep_long.function, name="paint", patience_s=0.01)
    (ended,) = await results(Agent(ScriptedModel(PAINTS), tools=[slow]))
    assert (ended.ok, ended.ending) == (False, "killed")


class Painter(Effect):
    """Asks for a colour, and paints."""

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        colour = await call.ask("Which colour?", ("red", "blue"))
        self.receiver.append(call.effect_key)
        return ToolResult(f"painted it {colour}")


def script(request: SeenRequest) -> Script:
    return [Said("Done.")] if "tool_call_id" in str(request.body) else [CallTool("paint")]


async def live(chaos: ChaosServer, disk: MemoryDisk, crash: CrashPoint, *, traits: ToolTraits) -> None:
    """One process, from its start to the run's end or its crash."""
    died = asyncio.Event()

    def die() -> NoReturn:
        died.set()
        raise Crashed

    crash.die = die
    store = CrashingStore(disk, crash, after=True)
    with suppress(Crashed, JournalError, BaseExceptionGroup):
        async with process(chaos, Painter("paint", [], traits), store=store) as world:
            if not await world.store.last_seq("s"):
                await send(world)
            tasks = {
                asyncio.create_task(world.until("s", e.RunEnded)),
                asyncio.create_task(died.wait()),
            }
            answering = asyncio.create_task(people(world, "s"))
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in (*tasks, answering):
                task.cancel()
            await asyncio.wait({*tasks, answering})


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_crash_at_any_append_asks_no_question_twice(*, idempotent: bool) -> None:
    """P6, P8: a tool that may run again gets the answer; of any other it's unknown what it did."""
    endings: set[str] = set()
    for nth in count(1):
        disk, crash = MemoryDisk(), CrashPoint(nth)
        traits = ToolTraits(idempotent=idempotent)
        async with ChaosServer(choose=script) as chaos:
            await live(chaos, disk, crash, traits=traits)
            await live(chaos, disk, CrashPoint(10_000), traits=traits)
        log = list(await MemoryStore(disk).read("s", limit=10_000))
        (ended,) = tool_ends(log)
        endings.add(ended.ending)
        assert kinds(log).count(e.QuestionAsked) <= 1, nth
        assert kinds(log).count(e.QuestionAnswered) + kinds(log).count(e.QuestionWithdrawn) <= 1, nth
        assert [one.event.outcome for one in log if isinstance(one.event, e.RunEnded)] == ["completed"], nth
        if ended.ending == "finished":
            assert ended.result == "painted it blue"
        if not crash.has_crashed:
            break
    assert endings == ({"finished"} if idempotent else {"finished", "unknown"})
