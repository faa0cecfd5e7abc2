"""A tree of sub-agents, eight side by side and three levels deep, whose process dies at every append.

Each crash is followed by a process that finishes the work. Then everyone has ended once and was heard once,
no effect happened twice, and the budget was kept. The suite does the same with a few random points.

    python bench/faults_families.py --step 1
"""

import argparse
import asyncio
import logging
import sys
from itertools import count

from agent.test_delegation_crashes import ENOUGH, NEVER, SCARCE, Outside, check_endings, check_family, live
from holdfast.chaos import CrashPoint
from holdfast.journal.memory import MemoryStore
from holdfast.values import Budget

TASK = "a 8 3"


async def campaign(step: int, budget: Budget, *, after: bool) -> int:
    """Crash at every `step`th append, until the work is done before the crash."""
    for nth in count(1, step):
        outside, crash = Outside(), CrashPoint(nth)
        await live(outside, TASK, crash, after=after, budget=budget)
        await live(outside, TASK, CrashPoint(NEVER), budget=budget)
        store = MemoryStore(outside.disk)
        if budget is ENOUGH:
            await check_family(store, outside, width=8, depth=3)
        else:
            await check_endings(store, outside, budget)
        if not crash.has_crashed:
            return nth
    raise AssertionError("this loop has no end")


async def main(step: int) -> None:
    """Run all campaigns, and say how many points each had."""
    for name, budget in (("enough", ENOUGH), ("scarce", SCARCE)):
        for after in (False, True):
            points = await campaign(step, budget, after=after)
            when = "after" if after else "before"
            sys.stdout.write(f"budget {name}, crash {when} the append: {points} points, nothing lost\n")
            sys.stdout.flush()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--step", type=int, default=1)
    asyncio.run(main(parser.parse_args().step))
