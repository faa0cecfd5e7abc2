"""`holdfast demo`: a tour of the promises, with real faults and timelines from the log."""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.cli.demo import acts
from holdfast.cli.demo.naive import naive_answer, naive_crash, naive_stop
from holdfast.cli.demo.screen import Screen
from holdfast.cli.demo.server import NotServing, TourServer
from holdfast.cli.terminal.output import echo_error
from holdfast.client import Client, ClientError, Heard, Seen
from holdfast.tools.shell.process_table import ON_LINUX, ProcessEntry, look, table, with_descendants

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
