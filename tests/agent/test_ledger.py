"""The ledger of effects: one name for each, and a true word about each that was cut short."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from agent.world import CrashingStore, Effect, either, ending, process, send, tool_ends
from fakes.crash import Crashed, CrashPoint
from holdfast import events as e
from holdfast.agent.running_call import STOPPED
from holdfast.chaos import CallTool, ChaosServer, Say, Script, SeenRequest
from holdfast.folds.run import Run
from holdfast.interfaces.journal import JournalError
from holdfast.interfaces.system_clock import SystemClock
from holdfast.interfaces.tool import ToolCall, ToolResult, ToolTraits
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.values import Action
from stores import MemoryStore

if TYPE_CHECKING:
    from _collections_abc import dict_values

IDEMPOTENT = ToolTraits(idempotent=True)


def twice(request: SeenRequest) -> Script:
    done = "tool" in str((request.body or {})["messages"])
    return [Say("done")] if done else [CallTool("pay", {"euro": 5}), CallTool("pay", {"euro": 5})]


async def live(chaos: ChaosServer, disk: MemoryDisk, crash: CrashPoint) -> None:
    """One process, to the run's end or its crash."""
    died = asyncio.Event()

    def die() -> NoReturn:
        died.set()
        raise Crashed

    crash.die = die
    store = CrashingStore(disk, crash, after=True)
    with suppress(Crashed, JournalError, BaseExceptionGroup):
        async with process(chaos, Effect("pay", [], IDEMPOTENT), store=store) as world:
            if not await store.last_seq("s"):
                await send(world)
            await either(asyncio.create_task(world.until("s", e.RunEnded)), asyncio.create_task(died.wait()))


async def test_two_calls_alike_in_one_answer_are_two_effects_wherever_the_server_crashes() -> None:
    """P6: the second is not taken for a repetition of the first by whoever knows their keys."""
    nth = 0
    for nth in count(3):
        disk, crash = MemoryDisk(), CrashPoint(nth)
        async with ChaosServer(choose=twice) as chaos:
            await live(chaos, disk, crash)
            await live(chaos, disk, CrashPoint(10_000))
        keys: dict[str, set[str]] = {}
        for record in await MemoryStore(disk).read("s", limit=10_000):
            if isinstance(record.event, e.ToolStarted):
                keys.setdefault(record.event.tool_call_id, set()).add(record.event.effect_key)
        assert [len(own) for own in keys.values()] == [1, 1], (nth, keys)
        assert len({key for own in keys.values() for key in own}) == 2, (nth, keys)
        if not crash.has_crashed:
            break
    assert nth > 6


class Pays(Effect):
    """Begins, and never comes to an end."""

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        self.receiver.append(call.effect_key)
        await asyncio.get_running_loop().create_future()
        raise AssertionError(args)


async def test_what_began_before_a_crash_is_not_said_to_be_not_started_when_it_is_stopped_after_it() -> None:
    """P4, P6: a stop that comes before it is tried again leaves its effect unknown."""
    disk, begun = MemoryDisk(), list[str]()
    async with ChaosServer([CallTool("pay")]) as chaos:
        frozen = MemoryStore(disk)
        async with process(chaos, Pays("pay", begun, IDEMPOTENT), store=frozen) as world:
            run_id = await send(world)
            await world.until("s", e.ToolStarted)
            while not begun:  # noqa: ASYNC110  # a tool rings no bell
                await asyncio.sleep(0)
            await frozen.close()

        class StopsFirst(MemoryStore):
            """Somebody stops the run before the call is started for the second time."""

            async def append_run(self, session_id: str, events: Sequence[e.Event], **rest: Any) -> Any:
                if any(isinstance(event, e.ToolStarted) for event in events):
                    await self.append("s", [e.StopRequested(at_ms=1, run_id=run_id, cause="user_stop")])
                return await super().append_run(session_id, events, **rest)

        async with process(chaos, Pays("pay", begun, IDEMPOTENT), store=StopsFirst(disk)) as world:
            log = await world.until("s", e.RunEnded)
    assert ending(log).outcome == "cancelled"
    assert [one.ending for one in tool_ends(log)] == ["killed"]
    assert len(begun) == 1


class Immortal(Effect):
    """Leaves something behind that nothing kills."""

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        self.receiver.append(call.tool_call_id)
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError as stop:
            stop.add_note(f"alive after KILL: zombie {args}")
            raise
        raise AssertionError("nothing ends it but a stop")


async def test_what_is_alive_after_a_stop_is_named_in_the_result() -> None:
    """P5: and it does not keep the run from its end."""
    begun: list[str] = []
    async with ChaosServer([CallTool("act")]) as chaos, process(chaos, Immortal("act", begun)) as world:
        run_id = await send(world)
        while not begun:  # noqa: ASYNC110  # a tool rings no bell
            await asyncio.sleep(0)
        assert await world.inbox.stop("s", run_id)
        (ended,) = tool_ends(await world.until("s", e.RunEnded))
    assert ended.result == f"{STOPPED} [alive after KILL: zombie {{}}]"


class StepClock(SystemClock):
    """A monotonic clock that a test moves on."""

    later_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.later_s


async def test_a_tool_that_is_stopped_keeps_the_time_that_it_took() -> None:
    """P4: a command that ran for an hour did not take 0.0 s."""
    begun, clock = list[str](), StepClock()
    async with (
        ChaosServer([CallTool("pay")]) as chaos,
        process(chaos, Pays("pay", begun), clock=clock) as world,
    ):
        run_id = await send(world)
        while not begun:  # noqa: ASYNC110  # a tool rings no bell
            await asyncio.sleep(0)
        clock.later_s = 3600.0
        assert await world.inbox.stop("s", run_id)
        (ended,) = tool_ends(await world.until("s", e.RunEnded))
    assert ended.ending == "killed"
    assert ended.ms >= 3_600_000


async def test_what_is_alive_after_the_patience_with_a_tool_is_named_in_the_result() -> None:
    begun: list[str] = []
    tool = Immortal("act", begun, ToolTraits(patience_s=0.01))
    async with ChaosServer([CallTool("act")], [Say("well")]) as chaos, process(chaos, tool) as world:
        await send(world)
        (ended,) = tool_ends(await world.until("s", e.RunEnded))
    assert (ended.ending, "[alive after KILL: zombie {}]" in ended.result) == ("killed", True)


class OnTheLoop(dict[str, Run]):
    """Runs of a session that other threads must not look at: the log goes on meanwhile."""

    def values(self) -> "dict_values[str, Run]":
        asyncio.get_running_loop()
        return super().values()


async def test_no_thread_looks_at_a_session_while_its_log_goes_on() -> None:
    """P10: a message that is sent while an action is judged does not fail the run."""
    done: list[str] = []
    async with (
        ChaosServer([CallTool("act")], [Say("ok")]) as chaos,
        process(chaos, Effect("act", done)) as world,
    ):
        view = await world.supervisor.view("s")
        view.session.runs = OnTheLoop()
        await send(world)
        assert ending(await world.until("s", e.RunEnded)).outcome == "completed"
    assert done == ["act {}"]


class Speechless(Effect):
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        raise ValueError(f"no words for {args} in {workspace}")


async def test_a_tool_that_cannot_say_what_it_would_do_is_not_run_and_the_run_goes_on() -> None:
    """P4: other people's code is no bug of ours."""
    done: list[str] = []
    async with (
        ChaosServer([CallTool("act")], [Say("ok")]) as chaos,
        process(chaos, Speechless("act", done)) as world,
    ):
        await send(world)
        log = await world.until("s", e.RunEnded)
        assert ending(log).outcome == "completed"
        (ended,) = tool_ends(log)
        assert (ended.ending, done) == ("not_started", [])
        assert "no words" in ended.result
