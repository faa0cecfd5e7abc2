"""Owners of triggers that are wrong in one way each, and the checks that find it."""

from typing_extensions import override

from features.automations.clock_campaign import jumping_clock
from features.automations.world import AT_MS, Deaths, TriggerWorld, check_each_instant_once
from holdfast.features.automations.events import (
    TriggerDue,
    TriggerFired,
    TriggerResumed,
    TriggerSkipped,
)
from holdfast.features.automations.owner import TriggerOwner
from holdfast.features.automations.state import TriggerFire
from holdfast.features.automations.steps import AppendEvents, Step, WaitForInstant
from holdfast.features.automations.values import EveryTimes
from holdfast.interfaces.ids import new_message_id, new_run_id
from holdfast.interfaces.journal import Replayed
from holdfast.runner.inbox import IncomingMessage
from sabotage import Sabotage


async def check_each_instant_fires_once_across_deaths(kind: type[TriggerOwner]) -> None:
    """P14: at every append the process dies, before and after it."""
    world = TriggerWorld(kind=kind, dies=Deaths(("before", "after")))
    await world.create(when=EveryTimes(seconds=600))
    world.start()
    expected = [AT_MS + nth * 600_000 for nth in range(1, 6)]
    await world.pass_through(expected)
    await world.stop()
    check_each_instant_once(world, expected)


class KeylessOwner(TriggerOwner):
    """Asks under new ids each time, and without a key."""

    @override
    async def _fire(self, fire: TriggerFire) -> None:
        message = IncomingMessage(text="go", message_id=new_message_id(), run_id=new_run_id())
        await self._inbox.send(fire.session_id, message)
        await self._append([TriggerFired(at_ms=self._clock.now_ms(), key=fire.key)])


class HastyOwner(TriggerOwner):
    """Says that it has fired before it has."""

    @override
    async def _fire(self, fire: TriggerFire) -> None:
        await self._append([TriggerFired(at_ms=self._clock.now_ms(), key=fire.key)])
        await super()._fire(fire)


class SilentOwner(TriggerOwner):
    """Waits for as long as the clock was ahead."""

    @override
    async def _next_step(self) -> Step:
        step = await super()._next_step()
        is_reset = isinstance(step, AppendEvents) and isinstance(step.events[0], TriggerResumed)
        return WaitForInstant() if is_reset else step


class ForgetfulOwner(TriggerOwner):
    """Leaves out what was missed if the last of it had its run before."""

    @override
    async def _record(self, step: AppendEvents) -> None:
        result = await self._append(step.events, key=step.key)
        if isinstance(result, Replayed):
            due = next(one for one in step.events if isinstance(one, TriggerDue))
            skipped = TriggerSkipped(at_ms=due.at_ms, key=due.key, due_at_ms=due.due_at_ms, why="duplicate")
            await self._append([skipped])


async def check_no_clock_loses_a_time(kind: type[TriggerOwner]) -> None:
    """P14: the clock jumps, and each time has its record."""
    await jumping_clock(kind, seed=35, steps=12)


SABOTAGES: tuple[Sabotage, ...] = (
    Sabotage("P14", check_each_instant_fires_once_across_deaths, TriggerOwner, KeylessOwner),
    Sabotage("P14", check_each_instant_fires_once_across_deaths, TriggerOwner, HastyOwner),
    Sabotage("P14", check_no_clock_loses_a_time, TriggerOwner, SilentOwner),
    Sabotage("P14", check_no_clock_loses_a_time, TriggerOwner, ForgetfulOwner),
)
