"""A small world for triggers: runs that end at once, and processes that die at every append."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from typing_extensions import override

from holdfast import events as e
from holdfast.agent.deps import AgentDeps
from holdfast.features.automations.events import (
    TriggerCreated,
    TriggerDue,
    TriggerFired,
    TriggerMissed,
)
from holdfast.features.automations.owner import TriggerOwner
from holdfast.features.automations.values import (
    TRIGGER,
    EveryTimes,
    TriggerSettings,
)
from holdfast.features.channels.http.folds import ChannelFolds
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Fence, Record, Store
from holdfast.interfaces.tool import Tool
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.inbox import Inbox
from holdfast.runner.supervisor import Supervisor
from holdfast.tools.registry import Registry
from holdfast.values import OutcomeKind
from runner.steered_clock import SteeredClock, settle
from serving import AsksAbout
from stores import MemoryStore

AT_MS = 1_800_000_000_000


class ProcessDied(BaseException):
    """The process is gone: nothing after this line happens."""


class DyingStore(MemoryStore):
    """A store whose process dies at each append: the first time before it is written, then after it was."""

    def __init__(self, disk: MemoryDisk, deaths: "Deaths") -> None:
        super().__init__(disk)
        self._deaths = deaths

    @override
    async def append(self, session_id: str, inputs: Any, **kwargs: Any) -> Any:
        return await self._dying(super().append, session_id, inputs, kwargs)

    @override
    async def append_run(self, session_id: str, events: Any, **kwargs: Any) -> Any:
        return await self._dying(super().append_run, session_id, events, kwargs)

    async def _dying(
        self, append: Callable[..., Awaitable[Any]], session_id: str, events: Any, kwargs: Any
    ) -> Any:
        turn = self._deaths.at((session_id, await self.last_seq(session_id), *map(type, events)))
        if turn == "before":
            raise ProcessDied
        result = await append(session_id, events, **kwargs)
        if turn == "after":
            raise ProcessDied
        return result


class CountedThreads(ThreadPoolExecutor):
    """Knows how many calls are in threads, so that time can wait for them."""

    def __init__(self) -> None:
        super().__init__(max_workers=2)
        self.busy = 0

    @override
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        loop = asyncio.get_running_loop()
        self.busy += 1
        future = super().submit(fn, *args, **kwargs)
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(self._ended))
        return future

    def _ended(self) -> None:
        self.busy -= 1


@dataclass
class Deaths:
    """How the process dies at each append, one way after the other; then it is left alone."""

    ways: Sequence[str] = ()
    seen: Counter[object] = field(default_factory=Counter[object])

    def at(self, place: object) -> str:
        self.seen[place] += 1
        return self.ways[self.seen[place] - 1] if self.seen[place] <= len(self.ways) else ""


def deps_of(store: Store, clock: Clock, **fields: Any) -> AgentDeps:
    """The dependencies of an owner, without a model: no run is executed."""
    return AgentDeps(
        store=store,
        model=cast("Any", None),
        clock=clock,
        judge=AsksAbout(),
        workspace=Path("/nowhere"),
        **fields,
    )


@dataclass
class TriggerWorld:
    """One trigger, the process that owns it, and the disk that outlives it."""

    clock: SteeredClock = field(default_factory=SteeredClock)
    disk: MemoryDisk = field(default_factory=MemoryDisk)
    dies: Deaths = field(default_factory=Deaths)
    kind: type[TriggerOwner] = TriggerOwner
    trigger_id: str = "trg_1"
    outcome: OutcomeKind | None = "completed"  # of runs; None: they go on
    shell: Tool | None = None  # what scripts run in
    deaths: int = 0
    task: asyncio.Task[None] | None = None
    threads: CountedThreads = field(default_factory=CountedThreads)
    _owner_store: MemoryStore | None = None

    @property
    def store(self) -> MemoryStore:
        """The disk as somebody else sees it."""
        return MemoryStore(self.disk)

    async def put(self, *inputs: e.Input) -> None:
        """Append to the trigger's log, and let the owner act."""
        assert self._owner_store is not None, "a process is there"
        await MemoryStore.append(self._owner_store, self.trigger_id, inputs)
        await self.settle()

    async def create(self, **fields: Any) -> None:
        """Make the trigger."""
        usual = {"name": "t", "when": EveryTimes(seconds=60), "prompt": "go"}
        created = e.SessionCreated(at_ms=self.clock.now_ms(), epoch="e", source=TRIGGER)
        settings = TriggerSettings(**cast("dict[str, Any]", usual | fields))
        made = TriggerCreated(at_ms=self.clock.now_ms(), settings=settings)
        await self.store.append(self.trigger_id, [created, made])

    def start(self) -> None:
        """Start a process that owns the trigger."""
        asyncio.get_running_loop().set_default_executor(self.threads)
        store = DyingStore(self.disk, self.dies)
        self._owner_store = store
        tools = Registry()
        tools.put("shell", [self.shell] if self.shell else [])
        deps = deps_of(store, self.clock, tools=tools)
        inbox = Inbox(store, Supervisor(deps), self.clock)
        owner = self.kind(
            self.trigger_id, Fence(self.disk.fence), agent=deps, inbox=inbox, channels=ChannelFolds()
        )
        self.task = asyncio.create_task(owner.work())

    async def stop(self) -> None:
        """The process is switched off."""
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])
            self.task = None

    async def settle(self) -> None:
        """Let everything happen that is ready, and start the process again each time it dies."""
        for _ in range(10_000):
            await self._rest()
            if self.task is not None and self.task.done():
                error = self.task.exception() if not self.task.cancelled() else None
                if not isinstance(error, ProcessDied):
                    if error is not None:
                        raise error
                    return
                self.deaths += 1
                self.start()
                continue
            if not await self._end_runs():
                return
        raise AssertionError("it never comes to rest")

    async def _rest(self) -> None:
        """Let the owner work until it waits for the clock alone, or has died."""
        await settle(8)
        while self.task is not None and not self.task.done() and not self._waits_for_the_clock():
            await settle(8)

    def _waits_for_the_clock(self) -> bool:
        scripts = [task for task in asyncio.all_tasks() if "until_script_ended" in repr(task.get_coro())]
        return self.clock.next_s is not None and not self.threads.busy and not scripts

    async def _end_runs(self) -> bool:
        """End the runs that are open; return whether there were any."""
        if self.outcome is None or self.task is None:
            return False
        rows = [row for row in self.disk.runs.values() if row.status != "ended"]
        store = self._owner_store
        assert store is not None, "a process is there"
        for row in rows:
            ended = e.RunEnded(at_ms=self.clock.now_ms(), run_id=row.run_id, outcome=self.outcome)
            await MemoryStore.append_run(store, row.session_id, [ended], fence=Fence(self.disk.fence))
        return bool(rows)

    async def pass_s(self, seconds: float) -> None:
        """Let time pass in the steps in which somebody wakes."""
        await self.settle()
        until_s = self.clock.monotonic_s() + seconds
        while (left_s := until_s - self.clock.monotonic_s()) > 0:
            next_s = self.clock.next_s
            self.clock.advance(max(min(left_s, left_s if next_s is None else next_s), 0.001))
            await self.settle()

    async def pass_through(self, instants_ms: Sequence[int]) -> None:
        """Let time pass from one instant to the next."""
        await self.settle()
        for at_ms in instants_ms:
            self.clock.advance((at_ms - self.clock.now_ms()) / 1000)
            await self.settle()
            while self.shell is not None and self._is_script_open():
                await self.settle()

    def _is_script_open(self) -> bool:
        """Whether something due hasn't fired: its script is a real process, and needs real time."""
        dues = {event.key for event in self.log if isinstance(event, TriggerDue)}
        return dues != {event.key for event in self.log if isinstance(event, TriggerFired)}

    @property
    def log(self) -> list[e.Event]:
        """The trigger's log."""
        return [record.event for record in self._records(self.trigger_id)]

    def queued(self) -> list[e.RunQueued]:
        """All runs that were ever queued, in any session."""
        found = [record.event for session_id in self.disk.sessions for record in self._records(session_id)]
        return [event for event in found if isinstance(event, e.RunQueued)]

    def messages(self) -> list[str]:
        """What was asked, in any session."""
        found = [record.event for session_id in self.disk.sessions for record in self._records(session_id)]
        return [event.text for event in found if isinstance(event, e.MessageAccepted)]

    def _records(self, session_id: str) -> Sequence[Record]:
        return self.disk.records(session_id, after=0, limit=100_000)


def check_each_instant_once(world: TriggerWorld, expected: Sequence[int]) -> None:
    """Each instant has one record: it was due, or it was missed; each that was due has one run."""
    dues = [event for event in world.log if isinstance(event, TriggerDue)]
    missed = [event for event in world.log if isinstance(event, TriggerMissed)]
    fired = [event.key for event in world.log if isinstance(event, TriggerFired)]
    records = [due.due_at_ms for due in dues if not due.missed]
    records += [at_ms for at_ms in expected for one in missed if one.first_ms <= at_ms <= one.last_ms]
    different = (Counter(records) - Counter(expected), Counter(expected) - Counter(records))
    assert sorted(records) == list(expected), f"too many, too few: {different}"
    assert sum(one.count for one in missed) == len(expected) - sum(not due.missed for due in dues)
    assert sorted(fired) == sorted({due.key for due in dues}), "what is due has fired, once"
    runs = [queued.run_id for queued in world.queued()]
    assert sorted(runs) == sorted(due.run_id for due in dues), "each has one run, under its own id"
