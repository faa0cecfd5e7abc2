"""A crash at every append: after each restart the run completes, and no effect happens twice."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import NoReturn

import msgspec
import pytest

from agent.world import CrashingStore, Effect, World, asks_about, people, process
from fakes.crash import Crashed, CrashPoint, is_crash
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say, Script, SeenRequest
from holdfast.folds import session, transcript
from holdfast.interfaces.journal import JournalError, Record
from holdfast.interfaces.tool import ToolTraits
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.values import ClientTool, RunSettings
from stores import MemoryStore

STEER = "and be quick"
SETTINGS = RunSettings(client_tools=(ClientTool(name="yours"),))


def script(request: SeenRequest) -> Script:
    """What the model does depends on what it was shown, so it is the same model after every restart."""
    messages = msgspec.convert((request.body or {})["messages"], list[dict[str, object]])
    results = [message for message in messages if message["role"] == "tool"]
    steered = any(message["content"] == STEER for message in messages)
    if not results:
        return [Say("first I look and act"), CallTool("look"), CallTool("act", {"n": 1})]
    if len(results) == 2:
        question = CallTool("ask_user", {"text": "which colour?"})
        return [question, CallTool("yours"), CallTool("act", {"n": 2})]
    assert [result["content"] for result in results].count("21") == 1, results
    return [Say("all done, quickly" if steered else "all done")]


@dataclass(slots=True)
class Outside:
    """What does not die with the process: the disk, the receiver of effects, and the user's memory."""

    disk: MemoryDisk = field(default_factory=MemoryDisk)
    looked: list[str] = field(default_factory=list[str])
    acted: list[str] = field(default_factory=list[str])
    namesake: list[str] = field(
        default_factory=list[str]
    )  # effects of our tool with the client's tool's name
    accepted: bool = False
    steered: bool = False


async def live(chaos: ChaosServer, outside: Outside, crash: CrashPoint, *, after: bool) -> None:
    """One process, from its start to the run's end or its crash."""
    died = asyncio.Event()

    def die() -> NoReturn:
        died.set()
        raise Crashed

    crash.die = die
    store = CrashingStore(outside.disk, crash, after=after)
    tools = (
        Effect("look", outside.looked, ToolTraits(read_only=True, parallel_safe=True)),
        Effect("act", outside.acted),
        Effect("yours", outside.namesake),
    )
    with suppress(Crashed, JournalError, BaseExceptionGroup):
        async with process(chaos, *tools, store=store, judge=asks_about("act")) as world:
            user = asyncio.create_task(use(world, outside))
            answering = asyncio.create_task(people(world, "s"))
            dead = asyncio.create_task(died.wait())
            await asyncio.wait({user, dead}, return_when=asyncio.FIRST_COMPLETED)
            for task in (user, answering, dead):
                task.cancel()
            await asyncio.wait({user, answering, dead})


async def use(world: World, outside: Outside) -> None:
    """Send the message if it was not accepted yet, steer once, and wait for the end."""
    if not await world.store.last_seq("s"):
        sent = await world.inbox.send("s", IncomingMessage(text="do it", settings=SETTINGS))
        assert isinstance(sent, Sent)
        outside.accepted = True
    log = await world.until("s", e.ToolStarted)
    run_id = next(record.event.run_id for record in log if isinstance(record.event, e.RunQueued))
    texts = [
        record.event.text for record in await world.log("s") if isinstance(record.event, e.MessageAccepted)
    ]
    if STEER not in texts:
        steered = await world.inbox.steer("s", run_id, message=IncomingMessage(text=STEER))
        outside.steered = isinstance(steered, Sent)
    await world.until("s", e.RunEnded)


def acted_at_most_once(outside: Outside, log: Sequence[Record]) -> bool:
    unknown = [r for r in log if isinstance(r.event, e.ToolEnded) and r.event.ending in {"unknown", "killed"}]
    # An effect whose outcome is unknown may have happened; no other may be missing, and none is doubled.
    return len(outside.acted) == len(set(outside.acted)) and len(set(outside.acted)) + len(unknown) >= 2


@pytest.mark.parametrize("after", [False, True], ids=["before it is written", "after it is written"])
async def test_a_crash_at_any_append_is_only_a_pause(*, after: bool) -> None:
    """P6: text, two tools, an approval, a question, a client's tool, a steer; crash, restart, complete."""
    nth = 0
    for nth in count(1):
        outside, crash = Outside(), CrashPoint(nth)
        async with ChaosServer(choose=script) as chaos:
            await live(chaos, outside, crash, after=after)
            await live(chaos, outside, CrashPoint(10_000), after=False)
        store = MemoryStore(outside.disk)
        log = list(await store.read("s", limit=10_000))
        pairs = [(record.seq, record.event) for record in log]
        (run,) = session.fold(pairs).runs.values()
        assert run.outcome == "completed", (nth, run)
        text = transcript.output(transcript.fold(pairs), run.run_id)
        assert text in {"all done", "all done, quickly"}, (nth, text)
        assert acted_at_most_once(outside, log), (nth, outside.acted)
        assert not outside.namesake, nth
        steers = [r for r in log if isinstance(r.event, e.MessageAccepted) and r.event.text == STEER]
        assert len(steers) == 1, nth
        if not crash.has_crashed:
            break
    assert nth > 20


def test_a_group_with_a_crash_in_it_is_a_crash() -> None:
    assert is_crash(BaseExceptionGroup("tasks", [Crashed()]))
