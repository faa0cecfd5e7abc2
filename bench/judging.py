"""How long judging a hostile command holds up everybody else, with and without a process that reads it.

python bench/judging.py. A task that does nothing but come back shows for how long other threads held the
event loop up. Beside it stand the same texts read in this process: what a model's answer could do if nothing
were done about it. It fails if a text holds the loop up for longer than STALL_MS_MAX, or if all
calls of one answer do.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.agent.policy import ConfiguredJudge
from holdfast.policy.shell.verdicts import ReadSteps, steps_of
from holdfast.tools.shell.command_reader import CommandReader
from holdfast.values import Action

STALL_MS_MAX = 40
CALLS = 60
# Each is the worst of its kind that a search found: the parser recovers from them in quadratic time.
UNITS = (
    ")",
    "?a",
    "a|",
    "b=)",
    "a=(",
    ")$",
    "(a[\\1&1",
    "|]])",
    "<)b=\\",
    "${",
    "<<E ",
    "<<<",
    "a[E\n",
    "|!",
)
# These keep the policy busy, not the parser.
BUSY = ("cd a;", "echo a|xargs b;", "find . -exec ", "eval 'a b';", "sudo x ", "a,b@c:d ", "rm -rf /$x ")


def others_s() -> float:
    """The processor time of all threads but this one; unlike the clock it does not see a busy machine."""
    return time.process_time() - time.thread_time()


async def stall_ms(work: Callable[[], object]) -> float:
    """The longest work of other threads between two turns of the loop, while the work is done in a thread."""
    longest_s, last_s = 0.0, others_s()
    done = asyncio.ensure_future(asyncio.to_thread(work))
    while not done.done():
        await asyncio.sleep(0)
        now_s = others_s()
        longest_s, last_s = max(longest_s, now_s - last_s), now_s
    await done
    return 1000 * longest_s


def judging(read: ReadSteps, texts: list[str], folder: Path) -> Callable[[], object]:
    judge = ConfiguredJudge(home=folder, read=read)
    actions = [
        Action(tool="shell", summary=text, argv=("/bin/bash", "-c", text), paths=(str(folder),))
        for text in texts
    ]
    return lambda: [judge.verdict(action, (), workspace=folder) for action in actions]


async def main() -> int:
    reader = CommandReader()
    worst_ms = 0.0
    with TemporaryDirectory() as name:
        folder = Path(name)
        await asyncio.to_thread(judging(reader, ["ls " + "a " * 200], folder))  # it starts its process
        print(f"{'':<28}{'in this process':>20}{'as it is':>20}")
        cases = [(repr(unit), [unit * (8_000 // len(unit))]) for unit in (*UNITS, *BUSY)]
        cases += [(f"short {unit!r}", [unit * (250 // len(unit))]) for unit in UNITS]
        cases.append((f"{CALLS} calls of one answer", [f"{')$' * 260} {nth}" for nth in range(CALLS)]))
        for named, texts in cases:
            before_ms = await stall_ms(judging(steps_of, texts, folder))
            now_ms = await stall_ms(judging(reader, texts, folder))
            worst_ms = max(worst_ms, now_ms)
            print(f"{named:<28}{before_ms:>17.1f} ms{now_ms:>17.1f} ms", flush=True)
    reader.close()
    print(f"longest: {worst_ms:.1f} ms; the limit is {STALL_MS_MAX} ms")
    return int(worst_ms > STALL_MS_MAX)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
