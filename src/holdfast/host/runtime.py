"""The composition root: builds model calls, the agent and its runner from parts.

`holdfast serve`, `holdfast chat`, the embedded `Agent` and the tests all start here and differ in the parts.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field
from typing_extensions import override

from holdfast.agent.deps import AgentDeps
from holdfast.api.live import BackgroundJobShown, BackgroundOutput
from holdfast.api.server import SandboxShown, TargetState, TargetTried
from holdfast.events import Event
from holdfast.host.opening import Opening
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Store
from holdfast.interfaces.model import Answer, Authorize, Compact, EventSink, ModelCaller, NoAnswer
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.retrying_append import AWAY, once_readable
from holdfast.journal.shared_notes import SharedNotes
from holdfast.messages import ModelRequest
from holdfast.models.call_deps import CallDeps, Prices
from holdfast.models.target_states import TargetStates
from holdfast.runner.inbox import Inbox
from holdfast.runner.supervisor import RunnerLimits, Supervisor
from holdfast.targets import Target
from holdfast.values import CallPurpose

if TYPE_CHECKING:
    from holdfast.interfaces.feature import Upkeep
    from holdfast.models.http import ModelHttp

TRY_S = 25.0  # below the time after which browsers and proxies give up on a response


def _no_jobs(session_id: str) -> Sequence[BackgroundJobShown]:
    del session_id
    return ()


async def _no_job(session_id: str, job_id: str) -> BackgroundOutput | None:
    del session_id, job_id
    return None


class SessionJobs(Struct, frozen=True):
    """The background processes of a session: all of them, one with its output, and the way to end one."""

    all: Callable[[str], Sequence[BackgroundJobShown]] = _no_jobs
    read: Callable[[str, str], Awaitable[BackgroundOutput | None]] = _no_job
    stop: Callable[[str, str], Awaitable[BackgroundOutput | None]] = _no_job
    upkeep: "Upkeep | None" = None  # ends those of purged sessions


def _model_http() -> "ModelHttp":
    from holdfast.models.http import ModelHttp

    return ModelHttp()


class AgentFactory(Protocol):
    """Makes what runs depend on, once the store and the model calls exist."""

    def __call__(self, *, store: Store, model: ModelCaller, clock: Clock) -> AgentDeps:
        """Usually `partial(AgentDeps, judge=…, tools=…, workspace=…)`."""
        ...


class Parts(Struct, frozen=True, kw_only=True):
    """What a runtime is built from. The caller closes the store and loads the prices."""

    targets: tuple[Target, ...]
    store: Store
    agent: AgentFactory
    clock: Clock = field(default_factory=SystemClock)
    jitter: Callable[[], float] = random.random
    http: "Callable[[], ModelHttp]" = _model_http
    prices: Prices = field(default_factory=Prices)
    authorize: Authorize | None = None
    unattended: bool = False  # nobody waits for an answer, so model calls may try for longer
    opening: Opening[Any] | None = None  # of the tools, for the caller to begin; None: they are open
    sandbox: Callable[[], SandboxShown | None] = lambda: None  # what commands run in, for people
    jobs: SessionJobs = field(default_factory=SessionJobs)


class Runtime(Struct, frozen=True):
    """Everything that runs need; a server or an embedded agent adds a runner to it."""

    agent: AgentDeps
    targets: tuple[Target, ...]
    calls: CallDeps

    @property
    def shared(self) -> TargetStates:
        """What all calls share about the targets."""
        return self.calls.shared

    async def target_states(self) -> Sequence[TargetState]:
        """The targets as they are now, without their keys."""
        await asyncio.to_thread(import_module, "holdfast.host.target_report")
        from holdfast.host.target_report import target_state

        targets = map(self.shared.with_open_key, self.targets)
        return [target_state(target, self.shared) for target in targets]

    async def try_target(self, name: str, heard: Callable[[Event], None]) -> TargetTried | None:
        """Make one tiny call to the target with this name; None if there is no such target."""
        target = self._named(name)
        if target is None:
            return None
        await asyncio.to_thread(import_module, "holdfast.host.target_report")
        from holdfast.host.probe import probe
        from holdfast.host.target_report import tried

        return tried(target, await probe(self.calls, target, seconds_max=TRY_S, heard=heard))

    async def try_now(self, name: str) -> bool:
        """Open the gate of the target with this name; False if there is no such target or gate."""
        target = self._named(name)
        return target is not None and await self.shared.try_now(target)

    def _named(self, name: str) -> Target | None:
        named = next((target for target in self.targets if target.name == name), None)
        return named and self.shared.with_open_key(named)


class _Connections:
    """The connections to model servers, opened by the first call: a start doesn't import their client."""

    def __init__(self, make: "Callable[[], ModelHttp]") -> None:
        self._make = make
        self._http: ModelHttp | None = None

    def opened(self) -> "ModelHttp":
        if self._http is None:
            self._http = self._make().opened()
        return self._http

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()


@dataclass(slots=True)
class _Model(ModelCaller):
    """The configured targets; the first call imports the rest, in a thread."""

    calls: CallDeps
    targets: tuple[Target, ...]
    is_imported: bool = False

    @override
    async def answer(
        self,
        request: ModelRequest,
        sink: EventSink,
        *,
        turn: int,
        purpose: CallPurpose = "answer",
        compact: Compact | None = None,
    ) -> Answer | NoAnswer:
        if not self.is_imported:
            await asyncio.to_thread(import_module, "holdfast.models.call")
            self.is_imported = True
        from holdfast.models.call import ModelCalls

        made = ModelCalls(self.calls, self.targets)
        return await made.answer(request, sink, turn=turn, purpose=purpose, compact=compact)


@asynccontextmanager
async def open_runtime(parts: Parts) -> AsyncGenerator[Runtime]:
    """The runtime; leaving it closes the connections to models."""
    async with AsyncExitStack() as stack:
        connections = _Connections(parts.http)
        stack.push_async_callback(connections.close)
        notes = SharedNotes(parts.store, "targets")
        shared = TargetStates(notes, parts.clock)
        await once_readable(shared.load, parts.clock, waits_out=AWAY)
        calls = CallDeps(
            connections.opened,
            shared,
            parts.store,
            parts.clock,
            parts.jitter,
            unattended=parts.unattended,
            prices=parts.prices,
            authorize=parts.authorize,
        )
        model = _Model(calls, parts.targets)
        agent = parts.agent(store=parts.store, model=model, clock=parts.clock)
        watching = agent.background.start("shared targets", partial(notes.watch, parts.clock, shared.load))
        try:
            yield Runtime(agent, parts.targets, calls)
        finally:
            await agent.background.end(watching)


class Runner(Struct, frozen=True):
    """Runs without a server: messages go into the inbox, events come out of the store."""

    inbox: Inbox
    store: Store
    supervisor: Supervisor
    clock: Clock


@asynccontextmanager
async def open_runner(parts: Parts, limits: RunnerLimits | None = None) -> AsyncGenerator[Runner]:
    """A runtime and its runner; leaving it cancels runs, and the next start resumes them."""
    async with open_runtime(parts) as runtime, Supervisor(runtime.agent, limits) as supervisor:
        store, clock = runtime.agent.store, runtime.agent.clock
        yield Runner(Inbox(store, supervisor, clock), store, supervisor, clock)
