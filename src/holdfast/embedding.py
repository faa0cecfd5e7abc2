"""An agent inside another program: `async with Agent(target) as agent: async for event in agent.run("…")`."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from inspect import isroutine
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from holdfast.agent.deps import AgentDeps
from holdfast.agent.policy import Judge
from holdfast.config.target_secrets import secrets_of
from holdfast.events import AnyEvent, RunEnded
from holdfast.folds.rows import run_of
from holdfast.host.runtime import Parts, Runner, open_runner
from holdfast.interfaces.ids import new_session_id
from holdfast.interfaces.journal import Store
from holdfast.interfaces.tool import Tool
from holdfast.journal.memory import MemoryStore
from holdfast.journal.redacting import RedactingStore
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.models.prices import Prices
from holdfast.policy.approvals import deny_unattended
from holdfast.policy.verdicts import Allow, Deny, Verdict
from holdfast.redaction import Redactor
from holdfast.runner.inbox import Message, Sent
from holdfast.targets import Target
from holdfast.tools.functions import tool as tool_of
from holdfast.tools.registry import Registry
from holdfast.tools.signatures import CannotBeTool
from holdfast.values import Action, Budget, Choice, GrantRule, RunSettings

if TYPE_CHECKING:
    from holdfast.interfaces.journal import Store


class Agent:
    """An async context manager whose runs keep the server's promises, in your event loop.

    `targets` are tried in order. `tools` are typed functions or Tools; they may run unless a `judge` decides
    otherwise. `path` names a SQLite file that keeps the sessions; without it they end with the program.
    The agent sets no signal handlers and doesn't touch your child processes.
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
        assert targets, "an agent needs at least one target"
        self._targets = targets
        self._tools = [_as_tool(given) for given in tools]
        self._instructions = instructions
        self._workspace = workspace or Path()
        self._path = path
        self._judge = judge or TrustedTools()
        self._stack = AsyncExitStack()
        self._runner: Runner | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            opened: Store = MemoryStore() if self._path is None else await SqliteStore.open(self._path)
            stack.push_async_callback(opened.close)
            redactor = Redactor(secrets_of(self._targets))
            prices = Prices()
            await prices.load(self._targets)
            registry = Registry()
            registry.put("own", self._tools)
            agent = partial(
                AgentDeps,
                judge=self._judge,
                tools=registry,
                workspace=self._workspace,
                instructions=self._instructions,
                context_window=min(target.context_window for target in self._targets),
                secrets=redactor,
            )
            store = RedactingStore(opened, redactor)
            parts = Parts(targets=self._targets, store=store, agent=agent, prices=prices)
            self._runner = await stack.enter_async_context(open_runner(parts))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def run(
        self, text: str, *, session_id: str = "", budget: Budget | None = None
    ) -> AsyncIterator[AnyEvent]:
        """The events of one run, up to its ending; the same session_id continues a conversation."""
        assert self._runner is not None, "use the agent as an async context manager"
        inbox, store = self._runner.inbox, self._runner.store
        session_id = session_id or new_session_id()
        message = Message(text=text, settings=RunSettings(budget=budget))
        sent = await inbox.send(session_id, message)
        if not isinstance(sent, Sent):
            raise ValueError(f"session {session_id} can't take a message: {sent}")  # noqa: TRY004  # a state, not a type
        row = await store.run(sent.run_id)
        assert row is not None, "an accepted message has a run"
        async for records in store.follow(session_id, after=row.first_seq - 1):
            for record in records:
                if run_of(record.event) == sent.run_id:
                    yield record.event
                    if isinstance(record.event, RunEnded):
                        return

    async def stop(self, session_id: str, run_id: str) -> bool:
        """End a run; False if it has ended."""
        assert self._runner is not None, "use the agent as an async context manager"
        return await self._runner.inbox.stop(session_id, run_id)


def _as_tool(given: Callable[..., object] | Tool) -> Tool:
    if isroutine(given):
        return tool_of(given)
    if not hasattr(given, "spec"):
        raise CannotBeTool(f"{given!r} is neither a function nor a Tool; write a function that calls it.")
    return cast("Tool", given)


@dataclass(frozen=True, slots=True)
class TrustedTools:
    """Allows every tool: the program that embeds the agent chose them."""

    def verdict(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> Verdict:
        """Allow it."""
        del action, grants, workspace
        return Allow("The program allows its own tools.")

    def for_a_person(self, findings: tuple[str, ...]) -> Deny:
        """Deny: nobody is there to ask."""
        return deny_unattended(findings)

    def choices(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> tuple[Choice, ...]:
        """No grants: each answer is for one action."""
        del action, grants, workspace
        return ("once", "deny")

    async def remember(self, grant_id: str, rule: GrantRule) -> None:
        """Never called, because nobody is asked."""
        raise AssertionError(f"nobody granted {grant_id} {rule}")

    def standing(self) -> Mapping[str, GrantRule]:
        """None."""
        return {}

    async def forget(self, grant_id: str) -> bool:
        """There is nothing to forget."""
        del grant_id
        return False

    def rule(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> GrantRule | None:
        """None: nothing is granted."""
        del action, grants, workspace
