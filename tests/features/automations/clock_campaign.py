"""A seeded campaign: the clock of a server with a schedule jumps by seconds to years, forward and back."""

import random

from features.automations.world import Deaths, TriggerWorld
from holdfast.features.automations import state as fold
from holdfast.features.automations.events import (
    TriggerDue,
    TriggerMissed,
    TriggerSkipped,
)
from holdfast.features.automations.owner import LOOK_S, TriggerOwner, schedule_for
from holdfast.features.automations.steps import AHEAD_MS_MAX
from holdfast.features.automations.values import (
    CronTimes,
    EveryTimes,
    When,
)

HOUR_S = 3_600
JUMPS_S = (5, 50, 700, HOUR_S, 20 * HOUR_S, 30 * HOUR_S, 10 * 24 * HOUR_S, 365 * 24 * HOUR_S)
PASSES_S = (60, 3 * HOUR_S)
TIMES: tuple[When, ...] = (
    EveryTimes(seconds=600),
    CronTimes(expression="*/20 * * * *"),
    CronTimes(expression="30 */2 * * *", zone="Europe/Berlin"),
)
DECISIONS = (TriggerDue, TriggerSkipped, TriggerMissed)
RULES = ("once", "skip", "ask")


class JumpingClock:
    """One trigger under a clock that jumps."""

    def __init__(self, dice: random.Random, kind: type[TriggerOwner]) -> None:
        self._dice = dice
        self._when = dice.choice(TIMES)
        self._ahead_s = 0  # by how much the clock is wrong
        dies = Deaths(dice.choice([(), ("before", "after")]))
        self.world = TriggerWorld(kind=kind, dies=dies)

    async def run(self, steps: int) -> None:
        """Let the clock jump so many times, and look at the log after each."""
        world, dice = self.world, self._dice
        await world.create(when=self._when, missed=dice.choice(RULES))
        world.start()
        for _ in range(steps):
            if dice.random() < 0.3:
                await world.stop()
                self._jump()
                world.clock.advance(dice.randrange(dice.choice(PASSES_S)))
                world.start()
            else:
                self._jump()
            # The owner looks at the clock after half a minute.
            await world.pass_s(LOOK_S + 1 + dice.randrange(dice.choice(PASSES_S)))
            await self._check()
        await world.stop()

    def _jump(self) -> None:
        """Set the clock wrong, or right again."""
        jump_s = -self._ahead_s
        if not self._ahead_s or self._dice.random() < 0.3:
            jump_s = self._dice.choice((-1, 1)) * self._dice.choice(JUMPS_S)
        self._ahead_s += jump_s
        self.world.clock.set_ms(self.world.clock.now_ms() + 1_000 * jump_s)

    async def _check(self) -> None:
        log, now_ms, trigger = self.world.log, self.world.clock.now_ms(), fold.Trigger()
        for seq, event in enumerate(log, start=1):
            cursor_ms, anchor_ms = trigger.cursor_ms, trigger.anchor_ms
            fold.apply(trigger, seq, event)
            if trigger.cursor_ms > cursor_ms and isinstance(event, DECISIONS):
                first_ms = event.first_ms if isinstance(event, TriggerMissed) else event.due_at_ms
                assert await self._after(cursor_ms, anchor_ms) == first_ms, "a time has no record"
        assert trigger.cursor_ms - now_ms <= AHEAD_MS_MAX, "silent for more than a day"
        assert await self._after(trigger.cursor_ms, trigger.anchor_ms) > now_ms, "a time has no record yet"
        dues = [one for one in log if isinstance(one, TriggerDue)]
        run_ids = [one.run_id for one in self.world.queued()]
        assert len({one.due_at_ms for one in dues}) == len(dues), "a time was due twice"
        assert sorted(run_ids) == sorted(one.run_id for one in dues), "a time has no run, or two"

    async def _after(self, cursor_ms: int, anchor_ms: int) -> int:
        schedule = await schedule_for(self._when, anchor_ms=anchor_ms)
        assert schedule is not None
        at_ms = schedule.after(cursor_ms)
        assert at_ms is not None
        return at_ms


async def jumping_clock(kind: type[TriggerOwner] = TriggerOwner, *, seed: int, steps: int) -> None:
    """P14: every time has its record and at most one run, and no trigger is silent for more than a day."""
    try:
        await JumpingClock(random.Random(seed), kind).run(steps)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
