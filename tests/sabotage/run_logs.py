"""Wrong run logs; the check of the promise that each breaks must notice."""

import asyncio
from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from agent.gated_store import GatedStore, run_log
from holdfast import events as e
from holdfast.agent.runlog import RunLog
from holdfast.interfaces.journal import Condition
from holdfast.interfaces.system_clock import SystemClock
from sabotage import Sabotage

LONG_S = 2.0  # against a beat of 8 ms


class EndsAtOnce(RunLog):
    """Appends the ending without what the run has said, and without waiting for the append in flight."""

    @override
    async def end(self, event: e.Event, *, when: Sequence[Condition] = ()) -> Any:
        return await self.append([event], when=when)


class SaysFirst(RunLog):
    """Appends the start of an attempt after its first output."""

    @override
    def emit(self, event: e.Event) -> None:
        if isinstance(event, e.AttemptStarted):
            asyncio.get_running_loop().call_soon(super().emit, event)
        else:
            super().emit(event)


class WaitsForOutput(RunLog):
    """Never appends the start of an attempt alone."""

    @override
    def _want_soon(self) -> None:
        return


def _kinds_and_text(store: GatedStore) -> tuple[list[str], str]:
    events = [event for append in store.appends for event in append]
    kinds = [type(event).__name__ for event in events]
    return kinds, "".join(event.text for event in events if isinstance(event, e.TextDelta))


async def check_an_ending_is_the_last_event_and_the_answer_is_whole(kind: type[RunLog]) -> None:
    """P4: the ending is appended with all that was said while an earlier append was in flight."""
    store, clock = GatedStore(), SystemClock()
    async with await run_log(store, clock, kind=kind) as log:
        store.gate.clear()
        log.say(1, "one ")
        ended = e.RunEnded(at_ms=clock.now_ms(), run_id="r", outcome="completed")
        ending = asyncio.create_task(log.end(ended))
        await store.until_asked()
        log.say(1, "two")
        store.gate.set()
        await ending
    assert _kinds_and_text(store) == (["TextDelta", "TextDelta", "RunEnded"], "one two")


async def check_the_start_of_an_attempt_is_in_front_of_its_output(kind: type[RunLog]) -> None:
    """P4: what an attempt says isn't taken for the output of an earlier one."""
    store, clock = GatedStore(), SystemClock()
    async with await run_log(store, clock, kind=kind) as log:
        _start_call(log)
        log.say(1, "hello")
        await log.flush()
    assert _kinds_and_text(store)[0] == ["CallStarted", "AttemptStarted", "TextDelta"]


async def check_a_start_without_output_is_saved(kind: type[RunLog]) -> None:
    """P4: the log says that the model was asked, although it says nothing."""
    store, clock = GatedStore(), SystemClock()
    log = await run_log(store, clock, kind=kind)
    _start_call(log)
    asked = asyncio.create_task(store.until_asked())
    await asyncio.wait([asked], timeout=LONG_S)
    is_saved = asked.done()
    asked.cancel()
    assert is_saved, "it waits for output"
    assert _kinds_and_text(store)[0] == ["CallStarted", "AttemptStarted"]
    await log.flush()


def _start_call(log: RunLog) -> None:
    now = log.now_ms()
    log.emit(e.CallStarted(at_ms=now, run_id="r", call_id="c", turn=1))
    log.emit(e.AttemptStarted(at_ms=now, run_id="r", call_id="c", attempt_id="a", target="main"))


SABOTAGES: tuple[Sabotage, ...] = (
    Sabotage("P4", check_an_ending_is_the_last_event_and_the_answer_is_whole, RunLog, EndsAtOnce),
    Sabotage("P4", check_the_start_of_an_attempt_is_in_front_of_its_output, RunLog, SaysFirst),
    Sabotage("P4", check_a_start_without_output_is_saved, RunLog, WaitsForOutput),
)
