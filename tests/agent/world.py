"""A small world for agents: effects that can be counted, people who answer, and processes that can die."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from holdfast import events as e
from holdfast.agent.deps import AgentDeps
from holdfast.chaos import ChaosServer, CrashPoint, SeenRequest
from holdfast.folds.transcript import fold, output
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Record, Store
from holdfast.interfaces.system_clock import SystemClock
from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.journal.memory import MemoryDisk, MemoryStore
from holdfast.messages import ToolSpec
from holdfast.models.attempt import CallDeps
from holdfast.models.call import ModelCalls
from holdfast.models.http import ModelHttp
from holdfast.models.prices import Prices
from holdfast.models.shared import Shared
from holdfast.policy.verdicts import Allow, Ask, Verdict
from holdfast.runner.inbox import Inbox, Message, Sent
from holdfast.runner.supervisor import RunnerLimits, Supervisor
from holdfast.targets import Patience
from holdfast.tools.arguments import arguments_hash
from holdfast.tools.ask import AskUser
from holdfast.tools.registry import Registry
from holdfast.values import Action, Choice, GrantRule, RunSettings
from serving import PATIENT, target_of

OBJECT: dict[str, object] = {"type": "object"}


@dataclass(slots=True)
class Effect:
    """A tool with an effect that a receiver outside counts."""

    name: str
    receiver: list[str]
    traits: ToolTraits = field(default_factory=ToolTraits)
    spec: ToolSpec = field(init=False)
    before: CrashPoint | None = None

    def __post_init__(self) -> None:
        self.spec = ToolSpec(self.name, "An effect.", OBJECT)

    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        del workspace
        return Action(tool=self.name, summary=f"{self.name} {args}", digest=arguments_hash(self.name, args))

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        self.receiver.append(f"{self.name} {args}")
        await call.say("working")
        return ToolResult(f"{self.name} done")


def asks_about(*names: str) -> "AskingJudge":
    return AskingJudge(frozenset(names))


@dataclass(frozen=True, slots=True)
class AskingJudge:
    """Asks about some tools and allows the rest."""

    names: frozenset[str]

    def verdict(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> Verdict:
        del grants, workspace
        return Ask(("it has an effect",)) if action.tool in self.names else Allow("")

    def for_a_person(self, findings: tuple[str, ...]) -> Ask:
        return Ask(findings)

    def choices(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> tuple[Choice, ...]:
        del action, grants, workspace
        return ("once", "deny")

    def rule(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> GrantRule | None:
        del action, grants, workspace

    async def remember(self, grant_id: str, rule: GrantRule) -> None:
        raise AssertionError(f"nobody said always: {grant_id} {rule}")

    def standing(self) -> Mapping[str, GrantRule]:
        return {}

    async def forget(self, grant_id: str) -> bool:
        raise AssertionError(f"nobody said always: {grant_id}")


class CrashingStore(MemoryStore):
    """A store whose process dies at the nth append, before it is written or just after."""

    def __init__(self, disk: MemoryDisk, crash: CrashPoint, *, after: bool) -> None:
        super().__init__(disk)
        when = "after" if after else "before"
        self.append = crash.around(super().append, when=when)  # pyright: ignore[reportAttributeAccessIssue]
        self.append_run = crash.around(super().append_run, when=when)  # pyright: ignore[reportAttributeAccessIssue]


@dataclass(frozen=True, slots=True)
class World:
    """One process's view: its inbox and its store."""

    inbox: Inbox
    store: Store
    supervisor: Supervisor

    async def until(self, session_id: str, kind: type[e.Event], *, times: int = 1) -> list[Record]:
        """Follow the log until an event of the kind came so often."""
        seen: list[Record] = []
        async for records in self.store.follow(session_id):
            seen.extend(records)
            if sum(isinstance(record.event, kind) for record in seen) >= times:
                return seen
        return seen

    async def log(self, session_id: str) -> list[Record]:
        """Everything that is on the log now."""
        return list(await self.store.read(session_id, limit=10_000))


async def people(world: World, session_id: str) -> None:
    """Answer every approval with once and every question with blue, as they come."""
    settled: set[str] = set()
    async for records in world.store.follow(session_id):
        for record in records:
            event = record.event
            if isinstance(event, e.ApprovalAnswered):
                settled.add(event.approval_id)
            elif isinstance(event, e.QuestionAnswered):
                settled.add(event.question_id)
        for record in await world.log(session_id):
            event = record.event
            if isinstance(event, e.ApprovalAsked) and event.approval_id not in settled:
                settled.add(event.approval_id)
                answer = e.ApprovalAnswered(
                    at_ms=1, run_id=event.run_id, approval_id=event.approval_id, choice="once"
                )
                await world.inbox.answer_approval(session_id, answer)
            elif isinstance(event, e.QuestionAsked) and event.question_id not in settled:
                settled.add(event.question_id)
                reply = e.QuestionAnswered(
                    at_ms=1, run_id=event.run_id, question_id=event.question_id, answer="blue"
                )
                await world.inbox.answer_question(session_id, reply)


@asynccontextmanager
async def process(  # noqa: PLR0913  # a process has many sides, and a test changes one
    chaos: ChaosServer,
    *tools: Tool,
    store: Store | None = None,
    inbox: type[Inbox] = Inbox,
    http: type[ModelHttp] = ModelHttp,
    patience: Patience = PATIENT,
    prices: Prices | None = None,
    clock: Clock | None = None,
    limits: RunnerLimits | None = None,
    **fields: object,
) -> AsyncGenerator[World]:
    """A process that runs agents; leaving it is a shutdown in which runs are cancelled."""
    async with AsyncExitStack() as stack:
        kept = store or MemoryStore()
        machine = SystemClock()
        clock = clock or machine
        connections = await stack.enter_async_context(http())
        calls = ModelCalls(
            CallDeps(
                connections,
                Shared(kept, machine),
                kept,
                machine,
                lambda: 0.5,
                prices=prices or Prices(),
            ),
            (target_of(chaos, patience=patience),),
        )
        registry = Registry()
        registry.put("own", [*tools, AskUser()])
        deps = AgentDeps(
            store=kept,
            model=calls,
            clock=clock,
            tools=registry,
            **({"workspace": Path("/nowhere"), "judge": asks_about()} | fields),  # pyright: ignore[reportArgumentType]
        )
        supervisor = await stack.enter_async_context(Supervisor(deps, limits))
        yield World(inbox(kept, supervisor, clock), kept, supervisor)


async def either(*things: asyncio.Task[object] | asyncio.Future[object]) -> None:
    """Wait for the first of them, and end the rest."""
    try:
        await asyncio.wait(things, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for thing in things:
            thing.cancel()
        await asyncio.wait(things)


async def send(world: World, text: str = "hi", *, session_id: str = "s", **settings: object) -> str:
    message = Message(text=text, settings=RunSettings(**settings))  # pyright: ignore[reportArgumentType]
    sent = await world.inbox.send(session_id, message)
    assert isinstance(sent, Sent)
    return sent.run_id


def kinds(records: list[Record]) -> list[type[e.Event]]:
    return [type(record.event) for record in records]


def ending(records: list[Record]) -> e.RunEnded:
    (ended,) = [record.event for record in records if isinstance(record.event, e.RunEnded)]
    return ended


def tool_ends(records: list[Record]) -> list[e.ToolEnded]:
    return [record.event for record in records if isinstance(record.event, e.ToolEnded)]


def answer(records: list[Record], run_id: str) -> str:
    return output(fold((record.seq, record.event) for record in records), run_id)


def roles(request: SeenRequest) -> list[str]:
    return [str(message["role"]) for message in messages(request)]


def messages(request: SeenRequest) -> list[dict[str, object]]:
    return msgspec.convert((request.body or {})["messages"], list[dict[str, object]])
