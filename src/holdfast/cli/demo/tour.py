"""`holdfast demo`: a tour of the promises, with real faults and timelines from the log.

The output of the tour: the answer as it arrives, the timeline of the log, and the result of plain code.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.cli.demo import acts
from holdfast.cli.demo.acts import ACTS, Act
from holdfast.cli.demo.server import NotServing, TourServer, naive_answer, naive_crash, naive_stop
from holdfast.cli.terminal.output import echo_error
from holdfast.client import Away, Back, Client, ClientError, Heard, LiveLine, Seen
from holdfast.folds.timeline import WORDS, Spent, Timeline, timeline
from holdfast.tools.shell.process_table import ON_LINUX, ProcessEntry, look, table, with_descendants

SHOWN = frozenset(
    {
        "run.queued",
        "attempt.started",
        "attempt.failed",
        "attempt.superseded",
        "call.gated",
        "text.delta",
        "tool.asked",
        "tool.started",
        "tool.ended",
        "stop.requested",
        "run.resumed",
        "run.ended",
    }
)
STYLES: Mapping[str, str] = {
    "attempt.failed": "red",
    "attempt.superseded": "magenta",
    "run.resumed": "magenta",
    "stop.requested": "magenta",
    "run.ended": "bold green",
    "text.delta": "dim",
}
SPENT_STYLES: Mapping[Spent, str] = {"stalled": "red", "away": "magenta", "streaming": "green"}
BAR = 30


class Screen:
    """Writes to the terminal, or as plain text to a file or pipe."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, soft_wrap=True)
        self._in_line = False

    @property
    def can_wait(self) -> bool:
        """Whether a person can press a key."""
        return self._console.is_terminal and sys.stdin.isatty()

    def opening(self) -> None:
        """Print the introduction."""
        self._line(Text("Holdfast demo: common failures, and how they look to you", style="bold"))
        self._line(
            "A misbehaving model server and a real Holdfast server now run in a temporary directory. Nothing"
        )
        self._line("is faked: the timelines come from the server's log, and the plain code really runs.")

    def act(self, act: Act) -> None:
        """The title of an act."""
        number = ACTS.index(act) + 1
        title = f"{number} of {len(ACTS)}: {act.title}"
        self._line("")
        if self._console.is_terminal:
            self._console.print(Rule(Text(title, style="bold cyan"), align="left"))
        else:
            self._line(f"== {title}")
        self._line(act.happens)
        self._line(Text(f"> {act.said}", style="bold"))

    def heard(self, one: Heard) -> None:
        """Show what the tour's client receives, as it arrives."""
        match one:
            case Seen(event=e.TextDelta() as delta):
                self._console.print(Text(delta.text), end="")
                self._in_line = True
            case Seen(event=e.AttemptSuperseded()):
                self._line(Text("  [the answer is being rewritten]", style="magenta"))
            case Seen(event=e.AttemptFailed() as failed):
                self._line(Text(f"  [{failed.failure.text}]", style="red"))
            case Seen(event=e.ToolStarted()):
                self._line(Text("  [the program is running]", style="magenta"))
            case Seen(event=e.RunResumed()):
                self._line(Text("  [the run continues]", style="magenta"))
            case LiveLine(text=text):
                self._line(Text(f"  … {text}", style="dim"))
            case Away(tries=1):
                self._line(Text("  [the server is down]", style="red"))
            case Seen() | Away() | Back():
                pass

    def aside(self, text: str) -> None:
        """Show something that the tour itself does."""
        self._line(Text(f"  [{text}]", style="magenta"))

    def timeline(self, seen: Sequence[Seen]) -> None:
        """Print the timeline from the log."""
        found = timeline((one.seq, one.event) for one in seen)
        self._line("")
        self._line(Text("From the log:", style="bold"))
        for line in found.lines:
            if line.type in SHOWN:
                times = f"({line.times} pieces) " if line.times > 1 else ""
                text = f"  {line.since_ms / 1000:>7.3f} s  {line.type:<19} {times}{line.text}"
                self._line(Text(text.rstrip(), style=STYLES.get(line.type, "")))
        self._bars(found)

    def _bars(self, found: Timeline) -> None:
        total_ms = max(1, found.total_ms)
        for spent, ms in sorted(found.spent_ms.items(), key=lambda item: -item[1]):
            if ms * BAR >= total_ms:
                bar = "█" * round(BAR * ms / total_ms)
                style = SPENT_STYLES.get(spent, "blue")
                self._line(
                    Text.assemble(f"  {ms / 1000:>7.3f} s  ", (f"{bar:<{BAR}}", style), f"  {WORDS[spent]}")
                )

    def verdict(self, ours: str, naive: str) -> None:
        """Compare Holdfast and plain code, in a sentence each."""
        self._line("")
        self._line(Text.assemble(("Holdfast ", "bold green"), ours))
        self._line(Text.assemble(("Plain code ", "bold red"), naive))

    def wrong(self, what: str) -> None:
        """The tour didn't see what it promised to show."""
        self._line(Text(f"This shouldn't have happened: {what}", style="bold red"))

    def closing(self, took_s: float) -> None:
        """Say what to do next."""
        self._line("")
        self._line(
            Text(f"Done in {took_s:.0f} s. The server is stopped and its directory is deleted.", style="bold")
        )
        self._line(
            "Next, run `holdfast serve` and say stall, drop, overload, slow or danger to the demo model."
        )

    def wait(self) -> None:
        """Wait until the reader presses Enter."""
        self._console.input(Text("Press Enter to continue ", style="dim"))

    def _line(self, text: str | Text) -> None:
        if self._in_line:
            self._console.print()
            self._in_line = False
        self._console.print(text)


OK, FAILED, INTERRUPTED = 0, 1, 130
LOOKS_MAX, LOOK_S = 200, 0.05


class NotAsPromised(Exception):
    """The tour saw something other than what it's about to claim."""


class DemoStage(Struct, frozen=True):
    """The dependencies of every act."""

    model: ChaosServer
    server: TourServer
    client: Client
    screen: Screen
    pace: acts.Pace


def demo(pace: acts.Pace) -> int:
    """The whole tour; the exit code is 1 if anything wasn't as promised."""
    screen = Screen()
    try:
        asyncio.run(_tour(screen, pace))
    except (NotAsPromised, ClientError, NotServing) as error:
        screen.wrong(str(error))
        return FAILED
    except OSError as error:
        echo_error(f"holdfast: {error}")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return OK


async def _tour(screen: Screen, pace: acts.Pace) -> None:
    began_s = time.monotonic()
    screen.opening()
    async with _stage(screen, pace) as stage:
        for act in acts.ACTS:
            screen.act(act)
            await PLAYS[act](stage, act)
            if screen.can_wait and pace is not acts.FAST and act is not acts.ACTS[-1]:
                await asyncio.to_thread(screen.wait)
    screen.closing(time.monotonic() - began_s)


@asynccontextmanager
async def _stage(screen: Screen, pace: acts.Pace) -> AsyncGenerator[DemoStage]:
    async with AsyncExitStack() as stack:
        folder = await asyncio.to_thread(tempfile.TemporaryDirectory, prefix="holdfast-demo-")
        stack.push_async_callback(asyncio.to_thread, folder.cleanup)
        model = await stack.enter_async_context(ChaosServer(choose=acts.TourScripts(pace)))
        server = TourServer(Path(folder.name), model.base_url, pace=pace)
        stack.push_async_callback(server.close)
        await server.start()
        client = await stack.enter_async_context(Client(where=server.where))
        yield DemoStage(model, server, client, screen, pace)


async def _watched(
    stage: DemoStage, run_id: str, on_event: Callable[[Seen], Awaitable[None]] | None = None
) -> list[Seen]:
    """Follow the run to its end, and show it."""
    found: list[Seen] = []
    async with aclosing(stage.client.watch(run_id)) as heard:
        async for one in heard:
            stage.screen.heard(one)
            await _note(one, found, on_event)
    return found


async def _note(one: Heard, found: list[Seen], on_event: Callable[[Seen], Awaitable[None]] | None) -> None:
    if isinstance(one, Seen):
        found.append(one)
        if on_event is not None:
            await on_event(one)


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, str]) -> AsyncGenerator[asyncio.Task[str]]:
    """Run plain code at the same time; it doesn't outlive its act."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _answered(stage: DemoStage, act: acts.Act) -> None:
    """The acts in which the answer still arrives."""
    plain = naive_answer(stage.model.base_url, act.said, patience_s=stage.pace.first_event_s + 1)
    async with _beside(plain) as naive:
        started = await stage.client.start(act.said)
        seen = await _watched(stage, started.run_id)
        stage.screen.timeline(seen)
        run = await stage.client.run(started.run_id)
        failures = [one.event.failure for one in seen if isinstance(one.event, e.AttemptFailed)]
        if run.output != acts.WHOLE or not failures:
            raise NotAsPromised(f"the answer is {run.output!r} after {len(failures)} failed attempts")
        took_s = (seen[-1].event.at_ms - seen[0].event.at_ms) / 1000
        ours = f"had the whole answer after {took_s:.1f} s; a chat shows a pause and no error."
        stage.screen.verdict(ours, f"{await naive}.")


async def _stopped(stage: DemoStage, act: acts.Act) -> None:
    """The act in which a person stops a run that has a program running."""
    started = await stage.client.start(act.said)
    running: list[ProcessEntry] = []

    async def stop(one: Seen) -> None:
        if isinstance(one.event, e.ToolStarted):
            running.extend(await _running(stage.server.pid))
            stage.screen.aside(f"stop; running: {', '.join(map(str, running)) or 'the program'}")
            await stage.client.stop(started.run_id)

    seen = await _watched(stage, started.run_id, stop)
    left = [process for process in running if _is_left(process)]
    stage.screen.timeline(seen)
    ended = seen[-1].event
    if not isinstance(ended, e.RunEnded) or ended.outcome != "cancelled" or left:
        raise NotAsPromised(f"the run ended like this: {ended}; still there: {left}")
    asked_ms = next(one.event.at_ms for one in seen if isinstance(one.event, e.StopRequested))
    gone = "once the program was gone" if running else "once it was true"
    ours = f"said “cancelled” {ended.at_ms - asked_ms} ms after the stop, and only {gone}."
    stage.screen.verdict(ours, f"{await naive_stop()}.")


async def _running(pid: int) -> list[ProcessEntry]:
    """Wait for the program: the log announces it before it starts."""
    for _ in range(LOOKS_MAX if ON_LINUX else 0):
        if found := await asyncio.to_thread(_programs, pid):
            return found
        await asyncio.sleep(LOOK_S)
    return []


def _programs(pid: int) -> list[ProcessEntry]:
    """The sleeping children of the server."""
    rows = table()
    below = with_descendants(rows, {pid})
    return [row for row in rows if row.pid in below and row.name == "sleep"]


def _is_left(process: ProcessEntry) -> bool:
    now = look(process.pid)
    return now is not None and now.born_ticks == process.born_ticks and not now.is_dead


async def _crashed(stage: DemoStage, act: acts.Act) -> None:
    """The act in which the server is killed."""
    plain = naive_crash(stage.model.base_url, act.said, pieces=stage.pace.words_before_kill)
    async with _beside(plain) as naive:
        started = await stage.client.start(act.said)
        killing = _Killing(stage)
        seen = await _watched(stage, started.run_id, killing.look)
        stage.screen.timeline(seen)
        run = await stage.client.run(started.run_id)
        log = [one.seq async for one in stage.client.follow(started.run_id)]
        resumed = [one for one in seen if isinstance(one.event, e.RunResumed)]
        if run.output != acts.LONG or len(resumed) != 1 or log != [one.seq for one in seen]:
            raise NotAsPromised(f"the answer is {run.output!r}, resumed {len(resumed)} times")
        ours = f"finished the run automatically; the log has all {killing.words} words shown before the kill."
        stage.screen.verdict(ours, f"{await naive}.")


class _Killing:
    """Kills the server once enough of the answer was seen, and starts it again."""

    def __init__(self, stage: DemoStage) -> None:
        self._stage = stage
        self._shown = ""
        self._is_done = False

    @property
    def words(self) -> int:
        """How many words were seen before the kill."""
        return len(self._shown.split())

    async def look(self, one: Seen) -> None:
        """Look at one more event of the run."""
        if self._is_done or not isinstance(one.event, e.TextDelta):
            return
        self._shown += one.event.text
        if self.words >= self._stage.pace.words_before_kill:
            self._is_done = True
            server = self._stage.server
            self._stage.screen.aside(f"kill -9 {server.pid}, then a new start")
            await server.kill()
            await server.start()


PLAYS: Mapping[acts.Act, Callable[[DemoStage, acts.Act], Awaitable[None]]] = {
    acts.STALL: _answered,
    acts.DROP: _answered,
    acts.LIMIT: _answered,
    acts.STOP: _stopped,
    acts.CRASH: _crashed,
}
