"""Tools of an embedded agent: options, context, dependencies, approvals."""

import asyncio
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import (
    Agent,
    ApprovalNeeded,
    ConfigurationError,
    Deny,
    PendingApproval,
    Retry,
    ToolContext,
    tool,
)
from holdfast.events import ApprovalAnswered, ToolEnded, ToolOutput
from holdfast.testing import Call, Gate, Hang, Say, ScriptedModel, Wait

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@dataclass
class Shop:
    prices: dict[str, int]
    keys: list[str] = field(default_factory=list[str])


async def price(context: ToolContext[Shop], item: str) -> int:
    """The price of an item, in cents."""
    context.deps.keys.append(context.effect_key)
    await context.say(f"looking up {item} for {context.run_id}")
    return context.deps.prices[item]


async def test_a_tool_gets_the_dependencies_of_its_run() -> None:
    model = ScriptedModel([Call("price", item="tea"), Say("one"), Call("price", item="tea"), Say("two")])
    agent = Agent[Shop](model, tools=[price], deps=Shop({"tea": 1}))
    shop = Shop({"tea": 250})
    first = await agent.run("What does tea cost?", deps=shop)
    second = await agent.run("What does tea cost?")
    assert [event.result for event in first.events if isinstance(event, ToolEnded)] == ["250"]
    assert [event.result for event in second.events if isinstance(event, ToolEnded)] == ["1"]
    assert [event.text for event in first.events if isinstance(event, ToolOutput)] == [
        f"looking up tea for {first.run_id}"
    ]
    assert shop.keys[0].startswith(first.run_id)
    assert "context" not in str(model.requests[0]["tools"])


async def test_a_started_run_keeps_its_dependencies() -> None:
    gate = Gate()
    model = ScriptedModel([[Wait(gate), Call("price", item="tea")], Say("250")])
    async with Agent[Shop](model, tools=[price], deps=Shop({})) as agent:
        run = await agent.start("What does tea cost?", deps=Shop({"tea": 250}))
        gate.open()
        result = await run.result()
    assert [event.result for event in result.events if isinstance(event, ToolEnded)] == ["250"]


async def test_options_of_a_tool_are_its_promises() -> None:
    @tool(read_only=True, idempotent=True, patience_s=5, name="look_up")
    async def look(word: str) -> str:
        """Look a word up."""
        return word

    assert look.spec.name == "look_up"
    assert (look.traits.read_only, look.traits.idempotent, look.traits.patience_s) == (True, True, 5)
    result = await Agent(ScriptedModel([Call("look_up", word="x"), Say("x")]), tools=[look]).run("x?")
    assert result.output == "x"


async def test_retry_tells_the_model_what_to_do() -> None:
    async def weather(city: str) -> str:
        """The weather of a city."""
        if city == "Munchen":
            raise Retry("write München")
        return "sunny"

    calls = [Call("weather", city="Munchen"), Call("weather", city="München")]
    result = await Agent(ScriptedModel([*calls, Say("Sunny.")]), tools=[weather]).run("?")
    ended = [event for event in result.events if isinstance(event, ToolEnded)]
    assert [(event.ok, event.result) for event in ended] == [
        (False, "Try again: write München"),
        (True, "sunny"),
    ]


async def test_a_closure_a_method_and_a_function_with_a_context_run_in_a_thread() -> None:
    """P10: the event loop works meanwhile."""
    loop_answers, seen = threading.Event(), list[str]()

    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def add(self, amount: int) -> int:
            """Add to the counter."""
            self.count += amount
            return self.count

    def wait(context: ToolContext[str]) -> str:
        """Wait for the event loop."""
        asyncio.run_coroutine_threadsafe(answer(), loop).result(60)
        seen.append(context.deps)
        return "waited" if loop_answers.is_set() else "alone"

    async def answer() -> None:
        loop_answers.set()

    loop, counter = asyncio.get_running_loop(), Counter()
    model = ScriptedModel([Call("add", amount=2), Call("wait"), Say("Done.")])
    result = await Agent[str](model, tools=[counter.add, wait]).run("Count", deps="of the run")
    assert [event.result for event in result.events if isinstance(event, ToolEnded)] == ["2", "waited"]
    assert (counter.count, seen) == (2, ["of the run"])


async def test_a_thread_that_a_stop_leaves_behind_is_told() -> None:
    """P5: no thread can be killed, so the log says that it is still running."""
    began, over = threading.Event(), threading.Event()

    def work() -> None:
        """Work until told."""
        began.set()
        over.wait(60)

    try:
        async with Agent(ScriptedModel([Call("work"), Hang()]), tools=[work]) as agent:
            run = await agent.start("Work")
            assert await asyncio.to_thread(began.wait, 60)
            await run.stop()
            (ended,) = [one.event async for one in run.events() if isinstance(one.event, ToolEnded)]
        assert ended.ending == "killed"
        assert "is still running" in ended.result
    finally:
        over.set()


async def test_a_tool_that_failed_too_often_is_not_called_any_more() -> None:
    calls = 0

    @tool(retries=1)
    async def guess(number: int) -> str:
        """Guess."""
        nonlocal calls
        calls += 1
        if number == 7:
            return "right"
        raise Retry("higher")

    wrong = Call("guess", number=1)
    model = ScriptedModel([wrong, Call("guess", number=7), wrong, wrong, Call("guess", number=7), Say("No.")])
    result = await Agent(model, tools=[guess]).run("Guess")
    ended = [event for event in result.events if isinstance(event, ToolEnded)]
    assert [event.ok for event in ended] == [False, True, False, False, False]
    assert ended[-1].result.startswith("Not run: guess failed 2 times, so this run can't call it any more.")
    assert (calls, result.output) == (4, "No.")


@tool(needs_approval=True)
async def pay(cents: int) -> str:
    """Pay somebody."""
    return f"paid {cents}"


def paying() -> ScriptedModel:
    return ScriptedModel([Call("pay", cents=5), Say("Done.")])


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (True, "paid 5"),
        (False, "This was denied."),
        (Deny("not on a Friday"), "This was denied: not on a Friday"),
        (None, "This was denied: the program couldn't decide (TypeError)"),
        (ZeroDivisionError(), "This was denied: the program couldn't decide (ZeroDivisionError)"),
    ],
    ids=range(5),
)
async def test_the_program_decides_about_the_exact_action(verdict: Any, told: str) -> None:
    """P8: only a clear yes is one."""
    asked: list[PendingApproval] = []

    async def decide(approval: PendingApproval) -> Any:
        asked.append(approval)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    result = await Agent(paying(), tools=[pay], on_approval=decide).run("Pay 5 cents")
    assert [event.result for event in result.events if isinstance(event, ToolEnded)] == [told]
    (approval,) = asked
    assert approval.action.summary == 'pay {"cents":5}'
    assert (approval.tool, approval.arguments) == ("pay", {"cents": 5})
    assert approval.run_id == result.run_id
    (answered,) = [event for event in result.events if isinstance(event, ApprovalAnswered)]
    assert answered.by == "on_approval"


async def test_a_plain_function_decides_in_a_thread_so_that_it_may_ask_at_a_terminal() -> None:
    """P10: the event loop works while it waits; what it raises is no yes (P8)."""
    asked, decided = threading.Event(), threading.Event()

    def decide(approval: PendingApproval) -> bool:
        asked.set()
        return decided.wait(60) and approval.action.tool == "pay"

    async with Agent(paying(), tools=[pay], on_approval=decide).stream("Pay 5 cents") as run:
        assert await asyncio.to_thread(asked.wait, 60), "the loop is free"
        decided.set()
        result = await run.result()
    assert [event.result for event in result.events if isinstance(event, ToolEnded)] == ["paid 5"]


async def told_after(handler: Any) -> str:
    result = await Agent(paying(), tools=[pay], on_approval=handler).run("Pay 5 cents")
    (ended,) = [event for event in result.events if isinstance(event, ToolEnded)]
    return ended.result


async def test_a_plain_function_decides_also_one_that_returns_what_an_async_function_does() -> None:
    """P8: only a clear yes is one."""

    async def decide(approval: PendingApproval, limit: int) -> bool:
        return f'"cents":{limit}' in approval.action.summary

    def within(limit: int) -> "Callable[[PendingApproval], Awaitable[bool]]":
        return lambda approval: decide(approval, limit)

    assert await told_after(lambda _: True) == "paid 5"  # pyright: ignore[reportUnknownLambdaType]
    assert await told_after(within(5)) == "paid 5"
    assert await told_after(within(4)) == "This was denied."
    assert (await told_after(lambda _: "yes")).endswith("the program couldn't decide (TypeError)")  # pyright: ignore[reportUnknownLambdaType]


async def test_a_plain_function_that_never_decides_does_not_keep_a_stop_waiting() -> None:
    """P5: the thread is left to itself."""
    asked, decided = threading.Event(), threading.Event()

    def decide(_: PendingApproval) -> bool:
        asked.set()
        return decided.wait(60)

    try:
        async with Agent(paying(), tools=[pay], on_approval=decide) as agent:
            run = await agent.start("Pay 5 cents")
            assert await asyncio.to_thread(asked.wait, 60)
            assert await run.stop()
        assert not decided.is_set()
    finally:
        decided.set()


async def test_what_a_handler_does_to_the_arguments_changes_nothing() -> None:
    """P8: what was shown is what runs."""

    @tool(needs_approval=True)
    async def send(to: list[str]) -> str:
        """Send."""
        return f"sent to {', '.join(to)}"

    def decide(approval: PendingApproval) -> bool:
        approval.arguments["to"].append("eve")
        return True

    model = ScriptedModel([Call("send", to=["ann"]), Say("Done.")])
    result = await Agent(model, tools=[send], on_approval=decide).run("Send")
    assert [event.result for event in result.events if isinstance(event, ToolEnded)] == ["sent to ann"]


async def test_without_anybody_to_ask_the_run_waits_and_says_so() -> None:
    """P8: and the answer by id lets it go on."""
    agent = Agent(paying(), tools=[pay])
    with pytest.raises(ApprovalNeeded, match="waits for an approval") as needed:
        await agent.run("Pay 5 cents")
    assert needed.value.action.summary == 'pay {"cents":5}'
    assert (needed.value.tool, needed.value.arguments) == ("pay", {"cents": 5})
    async with agent:
        run = await agent.attach(needed.value.run_id)
        with pytest.raises(ApprovalNeeded):
            await run.result()
        await run.approve(needed.value.approval_id)
        assert (await run.result()).output == "Done."
        with pytest.raises(ConfigurationError, match="answered before"):
            await run.deny(needed.value.approval_id, "too late")


async def test_an_approval_survives_a_restart_with_a_new_handler(tmp_path: Path) -> None:
    """P8: another process, with somebody to ask, takes the open approval up."""
    with pytest.raises(ApprovalNeeded) as needed:
        await Agent(paying(), tools=[pay], store=tmp_path / "talk.db").run("Pay 5 cents")

    async def yes(_: PendingApproval) -> bool:
        return True

    later = Agent(ScriptedModel([Say("Done.")]), tools=[pay], store=tmp_path / "talk.db", on_approval=yes)
    async with later:
        assert (await (await later.attach(needed.value.run_id)).result()).output == "Done."


async def test_a_handler_that_never_answers_ends_with_the_agent() -> None:
    """P5: no task of the agent's outlives it."""
    asked = asyncio.Event()

    async def never(_: PendingApproval) -> bool:
        asked.set()
        await asyncio.Event().wait()
        return True

    before = asyncio.all_tasks()
    async with Agent(paying(), tools=[pay], on_approval=never) as agent:
        await agent.start("Pay 5 cents")
        await asked.wait()
    assert asyncio.all_tasks() == before


async def test_a_stop_ends_a_tool_of_the_program() -> None:
    """P5."""
    began, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        """Work for ever."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with Agent(ScriptedModel([Call("work"), Hang()]), tools=[work]) as agent:
        run = await agent.start("work")
        await began.wait()
        await run.stop()
        assert ended.is_set()
