"""Calls to the bad model server: a clock that does not wait, a voice that remembers, a line to ask on."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aiohttp.abc import AbstractResolver, ResolveResult
from msgspec.structs import replace

from holdfast import events as e
from holdfast.chaos import ChaosServer, Gate
from holdfast.decisions.deadlines import RequestFacts, effective
from holdfast.folds import session, transcript
from holdfast.interfaces.model import Answer, Authorize, Compact, NoAnswer
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.messages import ModelRequest, UserMessage
from holdfast.models.call import ModelCalls
from holdfast.models.call_deps import HEDGE_SHARE, CallDeps
from holdfast.models.http import STALE_S, ModelHttp
from holdfast.models.target_states import TargetStates
from holdfast.models.watchdog import Watchdog
from holdfast.targets import Patience, RetryLimits, Target, Wire
from holdfast.values import Failure
from stores import MemoryStore

WIRES: tuple[Wire, ...] = ("responses", "chat", "anthropic")
START_MS = 1_800_000_000_000
HANGS_S = 20.0  # a test that takes longer hangs
# The patience with a silent attempt where a healthy one with the same patience follows: short enough to wait
# for, long enough for a busy machine to answer within it.
SHORT_S = 0.25
MANY = RetryLimits(attempts_max=5, attempts_per_target_max=5)

E = TypeVar("E", bound=e.Event)


class TestClock:
    """Stands still, but for what is slept and what a test adds; with `held`, sleepers wait at that gate."""

    __test__ = False

    def __init__(self) -> None:
        self.passed_ms = 0
        self.jumped_ms = 0  # by how much somebody has set the wall clock
        self.asleep_ms = 0  # how long the computer slept
        self.slept_s: list[float] = []
        self.held: Gate | None = None
        self.on_read: Callable[[], None] = lambda: None

    def now_ms(self) -> int:
        return START_MS + self.passed_ms + self.asleep_ms + self.jumped_ms

    def monotonic_s(self) -> float:
        return self.passed_ms / 1000

    def steady_s(self) -> float:
        self.on_read()
        return (self.passed_ms + self.asleep_ms) / 1000

    async def sleep_s(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        if self.held is not None:
            await self.held.passed()
        await asyncio.sleep(0)
        self.passed_ms += round(1000 * seconds)


class Told:
    """A voice that keeps what it is told in memory."""

    def __init__(self, clock: TestClock, run_id: str = "run_1") -> None:
        self.run_id = run_id
        self.resumed = False
        self.live: Callable[[], str] | None = None
        self.events: list[e.Event] = []
        self.full = False
        self.made_room = Gate()
        self.on_event: Callable[[e.Event], None] = lambda _: None
        self._clock = clock
        self._segment = 0

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def next_segment(self) -> int:
        self._segment += 1
        return self._segment

    def emit(self, event: e.Event) -> None:
        self.events.append(event)
        self.on_event(event)

    def say(self, segment: int, text: str) -> None:
        self.emit(e.TextDelta(at_ms=self.now_ms(), run_id=self.run_id, segment=segment, text=text))

    def think(self, segment: int, text: str) -> None:
        self.emit(e.ReasoningDelta(at_ms=self.now_ms(), run_id=self.run_id, segment=segment, text=text))

    async def room(self) -> None:
        await self.made_room.passed()
        self.full = False

    async def flush(self) -> None:
        return

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def failures(self) -> list[Failure]:
        """Why attempts failed, in order."""
        return [event.failure for event in self.of(e.AttemptFailed)]

    @property
    def kinds(self) -> list[str]:
        """The kinds of these failures."""
        return [failure.kind for failure in self.failures]

    @property
    def close_reasons(self) -> list[str]:
        """Why their connections were closed."""
        return [event.close_reason for event in self.of(e.AttemptFailed)]

    @property
    def line(self) -> str:
        """The live line now."""
        return "" if self.live is None else self.live()

    async def until_line(self, words: str) -> str:
        """Wait until the live line has these words; it is asked for, never sent."""
        async with asyncio.timeout(HANGS_S):
            while words not in self.line:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        return self.line

    async def until_text(self, text: str) -> None:
        """Wait until a piece of the answer with this text was told."""
        async with asyncio.timeout(HANGS_S):
            while not any(text in event.text for event in self.of(e.TextDelta)):  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    def log(self) -> list[tuple[int, e.Event]]:
        """A whole session's log, with what was told in its place; it is a legal one."""
        run_id = self.run_id
        opening = [
            e.SessionCreated(at_ms=1, epoch="x"),
            e.MessageAccepted(at_ms=1, message_id="m", text="hi"),
            e.RunQueued(at_ms=1, run_id=run_id, message_id="m"),
            e.MessageDispatched(at_ms=1, run_id=run_id, message_id="m"),
            e.RunStarted(at_ms=1, run_id=run_id),
        ]
        pairs = list(enumerate([*opening, *self.events], start=1))
        session.fold(pairs)
        return pairs

    @property
    def seen(self) -> transcript.Transcript:
        """What people see of it."""
        return transcript.fold(self.log())

    @property
    def text(self) -> str:
        """The clean answer."""
        return transcript.output(self.seen, self.run_id)

    @property
    def notices(self) -> list[str]:
        """The durable notes to the user."""
        return [entry.notice for entry in self.seen.entries if hasattr(entry, "notice")]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def request_of(text: str = "hi", **fields: Any) -> ModelRequest:
    """A request with one message."""
    return ModelRequest(messages=(UserMessage(text),), **fields)


def target_of(server: ChaosServer, wire: Wire, name: str = "main", **fields: Any) -> Target:
    """The server as a target."""
    base_url = server.url if wire == "anthropic" else server.base_url
    known: dict[str, Any] = {"base_url": base_url, "model": f"{name}-model", "api_key": "sk-test-123456789"}
    return Target(name=name, wire=wire, **(known | fields))


@dataclass(slots=True)
class Line:
    """One way to ask, with all that it works with; `ask` and `start` may be used again and again."""

    http: ModelHttp
    shared: TargetStates
    clock: TestClock
    store: MemoryStore
    targets: tuple[Target, ...]
    told: Told
    hedge_share: float = HEDGE_SHARE
    authorize: Authorize | None = None
    voices: int = 1
    tasks: list[asyncio.Task[Answer | NoAnswer]] = field(
        default_factory=list[asyncio.Task[Answer | NoAnswer]]
    )

    @property
    def calls(self) -> ModelCalls:
        deps = CallDeps(
            lambda: self.http,
            self.shared,
            self.store,
            self.clock,
            lambda: 0.5,
            hedge_share=self.hedge_share,
            authorize=self.authorize,
        )
        return ModelCalls(deps, self.targets)

    async def ask(
        self, request: ModelRequest | str = "hi", *, sink: Told | None = None, compact: Compact | None = None
    ) -> Answer | NoAnswer:
        """One call, to its end."""
        asked = request_of(request) if isinstance(request, str) else request
        told = sink or self.told
        async with asyncio.timeout(HANGS_S):
            ended = await self.calls.answer(asked, told, turn=1, compact=compact)
        assert told.live is None, "a live line is left"
        told.log()
        return ended

    def start(
        self, request: ModelRequest | str = "hi", *, sink: Told | None = None
    ) -> asyncio.Task[Answer | NoAnswer]:
        """One call, in a task of its own."""
        task = asyncio.create_task(self.ask(request, sink=sink))
        self.tasks.append(task)
        return task

    def another_voice(self) -> Told:
        """For a call of another run."""
        self.voices += 1
        return Told(self.clock, f"run_{self.voices}")

    def patient(self, **patience: Any) -> None:
        """Give all targets this patience."""
        self.targets = tuple(replace(target, patience=Patience(**patience)) for target in self.targets)

    def trying(self, **limits: Any) -> None:
        """Give all targets these limits."""
        self.targets = tuple(replace(target, retry=RetryLimits(**limits)) for target in self.targets)


@asynccontextmanager
async def line_to(
    *targets: Target,
    clock: TestClock | None = None,
    disk: MemoryDisk | None = None,
    resolver: AbstractResolver | None = None,
    tls: ssl.SSLContext | None = None,
    stale_s: float = STALE_S,
) -> AsyncGenerator[Line]:
    """A line to these targets; leaving it leaves nothing behind."""
    clock = clock or TestClock()
    store = MemoryStore(disk)
    async with ModelHttp(resolver, tls=tls, stale_s=stale_s) as http:
        shared = TargetStates(store, clock)
        await shared.load()
        line = Line(http, shared, clock, store, targets, Told(clock))
        try:
            yield line
        finally:
            for task in line.tasks:
                task.cancel()
            await asyncio.gather(*line.tasks, return_exceptions=True)
    await store.close()


@asynccontextmanager
async def line_of(
    wire: Wire, *scripts: Sequence[Any], clock: TestClock | None = None, **fields: Any
) -> AsyncGenerator[tuple[Line, ChaosServer]]:
    """A line to one bad model server that answers with these scripts, one per request."""
    async with (
        ChaosServer(*scripts) as server,
        line_to(target_of(server, wire, **fields), clock=clock) as line,
    ):
        yield line, server


async def ended_by(task: asyncio.Task[Any], cause: str) -> None:
    """Cancel the task and wait until it has gone; it ends as cancelled and in no other way."""
    task.cancel(cause)
    async with asyncio.timeout(HANGS_S):
        await asyncio.wait([task])
    assert task.cancelled()


async def nothing_left() -> None:
    """No task and no timer of ours; tasks that were cancelled have had their turn."""
    for _ in range(3):
        await asyncio.sleep(0)
    others = asyncio.all_tasks() - {asyncio.current_task()}
    own = [task for task in others if "/chaos/" not in _file_of(task)]
    assert not own, own
    assert not _timers(), "a timer is left"


def _file_of(task: asyncio.Task[Any]) -> str:
    code = getattr(task.get_coro(), "cr_code", None)
    return "" if code is None else str(code.co_filename)


def _timers() -> list[asyncio.TimerHandle]:
    """Timers of the model calls that have not gone off; only asyncio's own loop shows them."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, asyncio.BaseEventLoop):
        return []
    # Searching the whole heap would take minutes in a large process: this is called at every suspension.
    handles: list[asyncio.TimerHandle] = getattr(loop, "_scheduled")  # noqa: B009
    return [held for held in handles if not held.cancelled() and "/models/" in repr(held)]


class Names(AbstractResolver):
    """Resolves names to ports of this machine, and hangs for the rest."""

    def __init__(self, ports: dict[str, int]) -> None:
        self.ports = ports
        self.asked: list[str] = []
        self.hung = Gate()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        del port
        self.asked.append(host)
        if host not in self.ports:
            await self.hung.passed()
        return [
            ResolveResult(
                hostname=host,
                host="127.0.0.1",
                port=self.ports[host],
                family=family or socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        return


class Missing(Names):
    """Knows no name."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        del port, family
        raise OSError(None, f"{host}: not found")


async def wait_through_cancel(patience_s: float, *, times: int = 2) -> None:
    """Wait until a watchdog of this patience has gone off so many times: one that has not will not."""
    deadlines = effective(Patience(connect_s=patience_s), RequestFacts(local=True, input_tokens=1))
    for _ in range(times):
        watchdog = Watchdog(deadlines)
        with contextlib.suppress(TimeoutError):
            async with watchdog:
                await asyncio.get_running_loop().create_future()
        assert watchdog.passed is not None
