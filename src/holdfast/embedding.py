"""An agent inside another program: `async with Agent(target) as agent: async for event in agent.run("…")`."""

import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from inspect import isroutine
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from holdfast.agent.deps import AgentDeps
from holdfast.agent.policy import Judge
from holdfast.config.target_secrets import secrets_of
from holdfast.events import AnyEvent, RunEnded
from holdfast.folds.rows import run_of
from holdfast.interfaces.journal import Store
from holdfast.interfaces.system_clock import SystemClock
from holdfast.interfaces.tool import Tool
from holdfast.journal.memory import MemoryStore
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.models.attempt import CallDeps
from holdfast.models.call import ModelCalls
from holdfast.models.http import ModelHttp
from holdfast.models.prices import Prices
from holdfast.models.shared import Shared
from holdfast.policy.approvals import nobody_there
from holdfast.policy.verdicts import Allow, Deny, Verdict
from holdfast.redaction import Redactor
from holdfast.runner.inbox import Inbox, Message, Sent, new_session_id
from holdfast.runner.supervisor import Supervisor
from holdfast.targets import Target
from holdfast.tools.functions import tool as tool_of
from holdfast.tools.registry import Registry
from holdfast.tools.signatures import CannotBeTool
from holdfast.values import Action, Budget, Choice, GrantRule, RunSettings


class Agent:
    """Runs with the same promises as the server's, in this event loop; an async context manager.

    `targets` are asked in order. `tools` are typed functions or Tools; whoever hands them over allows them,
    unless a `judge` says otherwise. `path` names a SQLite file that keeps the sessions; without one they end
    with the program. No signal handler is set and no child of anyone else's is touched.
    """

    def __init__(
        self,
        *targets: Target,
        tools: Iterable[Callable[..., object] | Tool] = (),
        instructions: str = "",
        workspace: Path | None = None,
        path: Path | None = None,
        judge: Judge | None = None,
    ) -> None:
        assert targets, "an agent needs a target to ask"
        self._targets = targets
        self._tools = [_as_tool(given) for given in tools]
        self._instructions = instructions
        self._workspace = workspace or Path()
        self._path = path
        self._judge = judge or TrustedTools()
        self._stack = AsyncExitStack()
        self._inbox: Inbox | None = None
        self._store: Store | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._store, self._inbox = await self._opened(stack)
            self._stack = stack.pop_all()
        return self

    async def _opened(self, stack: AsyncExitStack) -> tuple[Store, Inbox]:
        """What runs need; the stack owns all of it."""
        clock = SystemClock()
        store: Store = MemoryStore() if self._path is None else await SqliteStore.open(self._path)
        stack.push_async_callback(store.close)
        http = await stack.enter_async_context(ModelHttp())
        shared = Shared(store, clock)
        await shared.load()
        prices = Prices()
        await prices.load(self._targets)
        registry = Registry()
        registry.put("own", self._tools)
        deps = AgentDeps(
            store=store,
            model=ModelCalls(
                CallDeps(http, shared, store, clock, random.random, prices=prices), self._targets
            ),
            clock=clock,
            judge=self._judge,
            tools=registry,
            workspace=self._workspace,
            instructions=self._instructions,
            context_window=min(target.context_window for target in self._targets),
            secrets=Redactor(secrets_of(self._targets)),
        )
        supervisor = await stack.enter_async_context(Supervisor(deps))
        return store, Inbox(store, supervisor, clock)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def run(
        self, text: str, *, session_id: str = "", budget: Budget | None = None
    ) -> AsyncIterator[AnyEvent]:
        """The events of one run, up to its ending; the same session_id continues a conversation."""
        assert self._inbox is not None, "Agent is an async context manager"
        assert self._store is not None
        session_id = session_id or new_session_id()
        message = Message(text=text, settings=RunSettings(budget=budget))
        sent = await self._inbox.send(session_id, message)
        if not isinstance(sent, Sent):
            raise ValueError(f"the session {session_id} takes no message: {sent}")  # noqa: TRY004  # a state, not a type
        row = await self._store.run(sent.run_id)
        assert row is not None, "what was sent has a run"
        async for records in self._store.follow(session_id, after=row.first_seq - 1):
            for record in records:
                if run_of(record.event) == sent.run_id:
                    yield record.event
                    if isinstance(record.event, RunEnded):
                        return

    async def stop(self, session_id: str, run_id: str) -> bool:
        """End a run; False if it has ended."""
        assert self._inbox is not None, "Agent is an async context manager"
        return await self._inbox.stop(session_id, run_id)


def _as_tool(given: Callable[..., object] | Tool) -> Tool:
    if isroutine(given):
        return tool_of(given)
    if not hasattr(given, "spec"):
        raise CannotBeTool(f"{given!r} is neither a function nor a Tool; write a function that calls it.")
    return cast("Tool", given)


@dataclass(frozen=True, slots=True)
class TrustedTools:
    """The program that hands tools to an agent has decided about them."""

    def verdict(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> Verdict:
        """See Judge."""
        del action, grants, workspace
        return Allow("The program allows its own tools.")

    def for_a_person(self, findings: tuple[str, ...]) -> Deny:
        """See Judge; nobody answers here."""
        return nobody_there(findings)

    def choices(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> tuple[Choice, ...]:
        """See Judge."""
        del action, grants, workspace
        return ("once", "deny")

    async def remember(self, grant_id: str, rule: GrantRule) -> None:
        """See Judge; nobody is asked, so there is nothing to remember."""
        raise AssertionError(f"nobody granted {grant_id} {rule}")

    def standing(self) -> Mapping[str, GrantRule]:
        """See Judge."""
        return {}

    async def forget(self, grant_id: str) -> bool:
        """See Judge."""
        del grant_id
        return False

    def rule(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> GrantRule | None:
        """See Judge."""
        del action, grants, workspace
