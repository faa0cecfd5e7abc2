"""A server or a command with counters, and what a piece of work added to them."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from runner.program import Program, program

INSTRUMENTS = Path(__file__).with_name("instruments.py")
QUIET_S = 0.05
ROUNDS_MAX = 15

Counted = dict[str, int]


def counted_command(folder: Path, *arguments: str) -> list[str]:
    """The command line of `holdfast` with counters."""
    return [sys.executable, str(INSTRUMENTS), str(folder / "counts"), *arguments]


async def counts_now(folder: Path) -> Counted:
    """The counts of the process so far."""
    reader, writer = await asyncio.open_unix_connection(folder / "counts")
    said = await reader.read()
    writer.close()
    return json.loads(said)


def added(before: Counted, after: Counted) -> Counted:
    """What was done in between."""
    return {name: after[name] - before[name] for name in after if name != "modules"}


@dataclass(frozen=True, slots=True)
class Allowed:
    """The range that a count has to be in."""

    least: float
    most: float

    def distance(self, count: int) -> float:
        """How far the count is outside of the range."""
        return max(self.least - count, count - self.most, 0)


@dataclass(frozen=True, slots=True)
class CountedServer:
    """A server whose work is counted."""

    folder: Path
    program: Program

    async def settled(self) -> Counted:
        """The counts once the server has nothing left to do."""
        before: Counted = {}
        while (now := await counts_now(self.folder)) != before:
            before = now
            await asyncio.sleep(QUIET_S)  # nothing says that all background work is done
        return now

    async def closest(
        self, work: Callable[[], Awaitable[Counted]], allowed: Callable[[str], Allowed]
    ) -> Counted:
        """What the work adds to each count, as close to what is allowed as in any of several rounds.

        Upkeep comes in between, a busy machine commits in more steps, and the garbage of a stop depends
        on where it arrives. So the work is repeated until each count was allowed in some round.
        """
        await work()  # the first builds what all later ones use
        found: Counted = {}
        for _ in range(ROUNDS_MAX):
            before = await self.settled()
            own = await work()
            new = added(before, await self.settled()) | own
            found = {
                name: min(found.get(name, count), count, key=allowed(name).distance)
                for name, count in new.items()
            }
            if not any(allowed(name).distance(count) for name, count in found.items()):
                break
        return found


async def command_counts(folder: Path, *arguments: str) -> Counted:
    """The counts of a whole command."""
    process = await asyncio.create_subprocess_exec(
        *counted_command(folder, *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()
    return json.loads((folder / "counts.json").read_text(encoding="utf-8"))


@asynccontextmanager
async def counted_server(folder: Path) -> AsyncGenerator[CountedServer]:
    """A server with counters, which is configured in the folder."""
    command = counted_command(folder, "serve", "--config", str(folder / "holdfast.toml"))
    async with program(folder, command=command) as served:
        yield CountedServer(folder, served)
