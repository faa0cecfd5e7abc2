"""A family of agents: a model inside the process whose answers follow from what it was shown.

A task is a line of words: what the agent is called, how many sub-agents it has, how deep they go, and how.
`a 8 2` means: do one effect, delegate to `a.1` … `a.8`, each with `1` sub-agent of its own. The answer names
the whole family, each member once: `a(a.1(a.1.1) a.2(a.2.1) …)`.
"""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from agent.world import Effect, World, process
from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.features.delegation.tools import child_tools
from holdfast.folds import session as sessions
from holdfast.folds.session import Session
from holdfast.interfaces.ids import new_attempt_id, new_call_id
from holdfast.interfaces.journal import Record, Store
from holdfast.interfaces.model import Answer, Compact, EventSink, ModelCaller, NoAnswer
from holdfast.messages import AskedTool, AssistantMessage, Message, ModelRequest, ToolMessage, UserMessage
from holdfast.values import CallPurpose

TOKENS = 10  # that each call uses
_ENDED = re.compile(r"\[Sub-agent \S+ has completed its task\. .*?\]\n\n(.*)", re.DOTALL)


@dataclass(slots=True)
class Family(ModelCaller):
    """Answers every agent of the family; counts the calls of each."""

    calls: dict[str, int] = field(default_factory=dict[str, int])
    extra: dict[str, object] = field(default_factory=dict[str, object])  # further arguments of `delegate`
    before: Callable[[str], Any] | None = None  # awaited before each call, with the agent's name

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
        call_id, attempt_id, run_id = new_call_id(), new_attempt_id(), sink.run_id
        now: dict[str, Any] = {"at_ms": sink.now_ms(), "run_id": run_id}
        sink.emit(e.CallStarted(**now, call_id=call_id, turn=turn, purpose=purpose))
        sink.emit(e.AttemptStarted(**now, call_id=call_id, attempt_id=attempt_id, target="family"))
        await sink.flush()
        task = _task(request.messages)
        self.calls[task.name] = self.calls.get(task.name, 0) + 1
        if self.before is not None:
            await self.before(task.name)
        text, tools = self._said(task, request.messages)
        if text:
            segment = sink.next_segment()
            sink.say(segment, text)
            sink.emit(e.TextDone(**now, segment=segment, text=text))
        for tool in tools:
            sink.emit(
                e.ToolAsked(**now, tool_call_id=tool.tool_call_id, name=tool.name, args=dict(tool.args))
            )
        sink.emit(e.Usage(**now, call_id=call_id, target="family", input_tokens=TOKENS, cost_usd=0.01))
        return Answer(call_id, "tools" if tools else "stop", tuple(tools), text)

    def _said(self, task: "_Task", messages: tuple[Message, ...]) -> tuple[str, list[AskedTool]]:
        since = max(n for n, one in enumerate(messages) if _task_in(one) is not None)
        results = [one for one in messages[since:] if isinstance(one, ToolMessage)]
        if not results:
            asked = [AskedTool(new_call_id(), "act", {"name": task.name})]
            for number in range(1, task.width + 1):
                args = {
                    "task": task.child(number),
                    **self.extra,
                    **({"background": True} if task.is_background else {}),
                }
                asked.append(AskedTool(new_call_id(), "delegate", args))
            return "", asked
        given = [one.text for one in results if one.name == "delegate"]
        if task.is_background:
            said = [_ENDED.search(one.text) for one in messages[since:] if isinstance(one, UserMessage)]
            given = [found[1] for found in said if found]
            if len(given) < task.width:
                return f"{task.name} waits", []
        inside = " ".join(given)
        return f"{task.name}({inside})" if inside else task.name, []


@dataclass(frozen=True, slots=True)
class _Task:
    name: str
    width: int = 0
    depth: int = 0
    is_background: bool = False

    def child(self, number: int) -> str:
        wide = 1 if self.depth > 1 else 0
        return f"{self.name}.{number} {wide} {self.depth - 1}"


def _task(messages: tuple[Message, ...]) -> _Task:
    return next(found for one in reversed(messages) if (found := _task_in(one)) is not None)


def _task_in(message: Message) -> _Task | None:
    if isinstance(message, AssistantMessage | ToolMessage):
        return None
    found = re.match(r"^([a-z][.\d]*) (\d+) (\d+)( background)?$", message.text)
    return _Task(found[1], int(found[2]), int(found[3]), bool(found[4])) if found else None


def members(name: str, width: int, depth: int) -> list[str]:
    """The names of the whole family."""
    inside = [
        one for n in range(1, width + 1) for one in members(f"{name}.{n}", 1 if depth > 1 else 0, depth - 1)
    ]
    return [name, *inside]


def family_answer(name: str, width: int, depth: int) -> str:
    """What the first of them says in the end."""
    inside = " ".join(
        family_answer(f"{name}.{n}", 1 if depth > 1 else 0, depth - 1) for n in range(1, width + 1)
    )
    return f"{name}({inside})" if inside else name


@asynccontextmanager
async def family_process(
    family: Family,
    acted: list[str],
    *,
    store: Store | None = None,
    children_max: int = 8,
    depth_max: int = 3,
    **fields: Any,
) -> AsyncGenerator[World]:
    """A process whose agents are a family."""
    tools = (Effect("act", acted), *child_tools(children_max=children_max, depth_max=depth_max))
    async with ChaosServer() as chaos, process(chaos, *tools, store=store, model=family, **fields) as world:
        yield world


async def folded(store: Store, session_id: str) -> Session:
    records = await store.read(session_id, limit=10_000)
    return sessions.fold((record.seq, record.event) for record in records)


async def until_quiet(world: World, session_id: str) -> list[Record]:
    """Follow the log until nothing is open: no run, no sub-agent and no message."""
    fold, seen = Session(), list[Record]()
    async for records in world.store.follow(session_id):
        for record in records:
            seen.append(record)
            sessions.apply(fold, record.seq, record.event)
        is_open = [child for child in fold.children.values() if child.ended is None]
        if fold.runs and not (fold.open_runs or is_open or fold.inbox.waiting()):
            break
    return seen


async def everyone(store: Store, session_id: str) -> list[tuple[str, Session]]:
    """The session and all its sub-agents."""
    fold = await folded(store, session_id)
    found = [(session_id, fold)]
    for child_id in fold.children:
        found += await everyone(store, child_id)
    return found
