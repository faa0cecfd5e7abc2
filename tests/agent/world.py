"""A small world for agents: effects that can be counted, people who answer, and processes that can die."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from fakes.crash import CrashPoint
from holdfast import events as e
from holdfast.agent.deps import AgentDeps
from holdfast.chaos import ChaosServer, SeenRequest
from holdfast.folds.transcript import fold, output
from holdfast.host.runtime import Runner, open_runner
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Record, Store
from holdfast.interfaces.model import ModelCaller
from holdfast.interfaces.system_clock import SystemClock
from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.messages import ToolSpec
from holdfast.models.call_deps import Prices
from holdfast.models.http import ModelHttp
from holdfast.redaction import NO_SECRETS, Redactor
from holdfast.runner.asks import ApprovalVerdict, QuestionAnswer
from holdfast.runner.inbox import Inbox, IncomingMessage, Sent
from holdfast.runner.supervisor import RunnerLimits
from holdfast.targets import Patience, Wire
from holdfast.tools.arguments import arguments_hash
from holdfast.tools.registry import Registry
from holdfast.values import Action, ClientToolResult, RunSettings
from serving import PATIENT, AsksAbout, parts_of, target_of
from stores import MemoryStore

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


def asks_about(*names: str) -> AsksAbout:
    """A judge that asks about these tools and takes no lasting grant."""
    return AsksAbout(frozenset(names), grants=False)


class CrashingStore(MemoryStore):
    """A store whose process dies at the nth append, before it is written or just after."""

    def __init__(self, disk: MemoryDisk, crash: CrashPoint, *, after: bool) -> None:
        super().__init__(disk)
        when = "after" if after else "before"
        self.append = crash.around(super().append, when=when)  # pyright: ignore[reportAttributeAccessIssue]
        self.append_run = crash.around(super().append_run, when=when)  # pyright: ignore[reportAttributeAccessIssue]


class World(Runner, frozen=True):
    """One process's view: its inbox and its store."""

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
    """Answer every approval with once, every question with blue, and every client's call with 21."""
    settled: set[str] = set()
    async for records in world.store.follow(session_id):
        for record in records:
            event = record.event
            if isinstance(event, e.ApprovalAnswered):
                settled.add(event.approval_id)
            elif isinstance(event, e.QuestionAnswered | e.ClientToolsAnswered):
                settled.add(event.ask_id)
        for record in await world.log(session_id):
            event = record.event
            if isinstance(event, e.ApprovalAsked) and event.approval_id not in settled:
                settled.add(event.approval_id)
                answer = ApprovalVerdict("once")
                await world.inbox.answer(event.approval_id, answer)
            elif isinstance(event, e.QuestionAsked) and event.question_id not in settled:
                settled.add(event.question_id)
                reply = QuestionAnswer("blue")
                await world.inbox.answer(event.question_id, reply)
            elif isinstance(event, e.ClientToolsAsked) and event.client_tools_id not in settled:
                settled.add(event.client_tools_id)
                results = [ClientToolResult(tool_call_id=id_, text="21") for id_ in event.tool_call_ids]
                returned = e.ClientToolsAnswered(
                    at_ms=1,
                    run_id=event.run_id,
                    client_tools_id=event.client_tools_id,
                    results=tuple(results),
                )
                await world.inbox.answer_client_tools(session_id, returned)


@asynccontextmanager
async def process(  # noqa: PLR0913  # a process has many sides, and a test changes one
    chaos: ChaosServer,
    *tools: Tool,
    store: Store | None = None,
    inbox: type[Inbox] = Inbox,
    http: type[ModelHttp] = ModelHttp,
    model: ModelCaller | None = None,
    patience: Patience = PATIENT,
    prices: Prices | None = None,
    clock: Clock | None = None,
    limits: RunnerLimits | None = None,
    registry: Registry | None = None,
    wire: Wire = "chat",
    **fields: object,
) -> AsyncGenerator[World]:
    """A process that runs agents; leaving it is a shutdown in which runs are cancelled."""
    secrets = cast("Redactor", fields.get("secrets", NO_SECRETS))
    kept = store or MemoryStore(redactor=secrets)
    base_url = chaos.url if wire == "anthropic" else chaos.base_url
    target = replace(target_of(chaos, patience=patience), wire=wire, base_url=base_url)
    usual = parts_of(target, store=kept, tools=tools, registry=registry, **fields)
    runs_clock = clock or SystemClock()  # model calls keep the machine's time

    def agent(**wired: Any) -> AgentDeps:
        made = dataclasses.replace(usual.agent(**wired), clock=runs_clock)
        return made if model is None else dataclasses.replace(made, model=model)

    parts = replace(usual, agent=agent, http=http, prices=prices or Prices())
    async with open_runner(parts, limits) as runner:
        yield World(inbox(kept, runner.supervisor, runs_clock), kept, runner.supervisor, runs_clock)


async def either(*things: asyncio.Task[object] | asyncio.Future[object]) -> None:
    """Wait for the first of them, and end the rest."""
    try:
        await asyncio.wait(things, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for thing in things:
            thing.cancel()
        await asyncio.wait(things)


async def send(world: World, text: str = "hi", *, session_id: str = "s", **settings: object) -> str:
    message = IncomingMessage(text=text, settings=RunSettings(**settings))  # pyright: ignore[reportArgumentType]
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
