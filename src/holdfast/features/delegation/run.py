"""Delegation in a run: what the tools for sub-agents do.

A call of `delegate` derives the sub-agent's ids from its effect key, so a call that runs again after a crash
finds the sub-agent that it made.

How a run shares its budget with its sub-agents: what is left of it, and how much each one gets.
"""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec.structs import asdict, replace

from holdfast import events as e
from holdfast.agent.budgets import RunLimits, Spent
from holdfast.agent.children import Children, NewChild, append, create, patiently
from holdfast.agent.deps import AgentDeps
from holdfast.agent.running_call import RunningCall
from holdfast.agent.shared_fold import SharedFold
from holdfast.codec import UnreadableEvent
from holdfast.events.modes import mode_set
from holdfast.features.delegation.agents import AgentLibrary, NamedAgent, refreshed
from holdfast.features.delegation.tools import (
    ChildArgs,
    Delegate,
    DelegateArgs,
    NamedTask,
    StatusArgs,
    SteerArgs,
    TailArgs,
    WaitArgs,
    delegate_among,
)
from holdfast.folds.child_lines import progress_line, tail_of
from holdfast.folds.run import ChildState
from holdfast.folds.session import Session, chat_of
from holdfast.interfaces.feature import DeclaringRun, RecordedTool, RunContext, RunHooks
from holdfast.interfaces.ids import child_ids, message_of
from holdfast.interfaces.journal import Declined, IdempotencyKey, IfRunOpen, IfSessionKnown, JournalError
from holdfast.interfaces.tool import ToolResult
from holdfast.messages import ToolSpec
from holdfast.policy.tool_names import (
    CHILD_STATUS,
    CHILD_STEER,
    CHILD_STOP,
    CHILD_TAIL,
    CHILD_TOOLS,
    CHILD_VERBS,
    CHILD_WAIT,
    DELEGATE,
)
from holdfast.racing import wait_through_cancel
from holdfast.tools.arguments import BadArguments, parsed
from holdfast.tools.registry import Registry
from holdfast.values import NO_TOOLS, PARENT_STOPPED, Budget, ParentLink, RunSettings, asks_less

CENT_PARTS = 1e-6  # below this, money that is left is a rounding error


def left_of(budget: Budget, spent: Spent) -> Budget | None:
    """Return the remaining budget, where 0 still means no limit; None if a part of it is used up."""
    left = Budget(
        tokens=max(budget.tokens - spent.tokens, 0),
        cost_usd=max(budget.cost_usd - spent.cost_usd, 0.0),
        turns=max(budget.turns - spent.turns, 0),
        minutes=max(budget.minutes - spent.minutes, 0.0),
    )
    is_over = (
        (budget.tokens and not left.tokens)
        or (budget.cost_usd and left.cost_usd < CENT_PARTS)
        or (budget.turns and not left.turns)
        or (budget.minutes and not left.minutes)
    )
    return None if is_over else left


def share_of(left: Budget, wanted: Budget | None, *, sharers: int) -> Budget:
    """Return the budget of one of `sharers` new sub-agents: its request, within the remaining budget.

    Without a request, it gets an equal share, and the parent also keeps one share. Minutes pass for all of
    them at the same time, so they aren't divided.
    """
    parts = sharers + 1
    even = Budget(
        tokens=max(left.tokens // parts, 1) if left.tokens else 0,
        cost_usd=left.cost_usd / parts,
        turns=max(left.turns // parts, 1) if left.turns else 0,
        minutes=left.minutes,
    )
    if wanted is None:
        return even
    asked = Budget(
        tokens=wanted.tokens or even.tokens,
        cost_usd=wanted.cost_usd or even.cost_usd,
        turns=wanted.turns or even.turns,
        minutes=wanted.minutes or even.minutes,
    )
    return asked.within(left)


_log = logging.getLogger(__name__)

KEPT_MS = 10 * 365 * 86_400_000
PREFIX = "agent-"
# The settings that are about the client's own request, as a sub-agent has them.
_OWN_REQUEST: Mapping[str, Any] = MappingProxyType(
    {
        "on_disconnect": "",
        "metadata": {},
        "output": None,
        "client_tools": (),
        "tool_choice": "",
        "client": "",
        "purpose": "answer",
        "plan_first": False,
        "goal": False,
        "takes_files": False,
    }
)
TOO_DEEP = "A sub-agent of this level can't start its own."


class Delegation:
    """Carries out the calls of one run."""

    def __init__(self, context: RunContext) -> None:
        self._view = context.view
        self._log = context.log
        self._deps = context.deps
        self._children = Children(context.log.session_id, context.view, context.deps)
        self._reserving = asyncio.Lock()  # one at a time, so that each sees what the others reserved
        self._lines: dict[str, str] = {}  # what sub-agents that are waited for did last, by name

    async def delegate(self, asked: e.ToolAsked, call: RunningCall, tools: Registry) -> ToolResult:
        """Start a sub-agent, and wait for its answer unless it works in the background."""
        tool = tools.get(DELEGATE)
        assert isinstance(tool, Delegate), "the call was judged with it"
        args = _task(tool, asked.args)
        ids = child_ids(call.effect_key)
        child = self._view.session.children.get(ids.session_id)
        if child is None:
            reserved = await self._reserved(args, call, tools, tool=tool)
            if isinstance(reserved, ToolResult):
                return reserved
            child = reserved
        if child.ended is None:
            await self._create(child, args)
        name = child.started.name
        if args.background:
            verbs = f"{CHILD_STATUS}, {CHILD_WAIT}, {CHILD_TAIL}, {CHILD_STEER} and {CHILD_STOP}"
            return ToolResult(
                f"Sub-agent {name} works in the background. Its answer will come as a message.",
                advice=f"[{verbs} take its name.]",
            )
        await self._awaited(child, call)
        assert child.ended is not None, "it was waited for"
        ended = child.ended
        return ToolResult(ended.result, ok=ended.outcome == "completed", blob=ended.blob)

    async def _reserved(
        self, args: NamedTask, call: RunningCall, tools: Registry, *, tool: Delegate
    ) -> ChildState | ToolResult:
        """The sub-agent with its budget reserved on the log; a result for the model if it can't be had."""
        if _depth(self._view.session) >= tool.depth_max:
            return _not_started(TOO_DEEP)
        settings = self._settings(args, tools, tool.agents)
        # Others may wait for room meanwhile, so the call's patience rests here, too.
        with call.resting():
            await self._reserving.acquire()
        try:
            with call.resting():
                has_room = await self._has_room(args, tool.children_max)
            if not has_room:
                return _not_started(
                    f"{tool.children_max} sub-agents are working, and that is the most. Wait for one "
                    f"with {CHILD_WAIT}, or stop one."
                )
            budget = self._share(args, settings.budget if args.agent else None)
            if budget is None:
                return _not_started("Nothing is left of the budget, so no sub-agent can be started.")
            ids = child_ids(call.effect_key)
            self._log.emit(
                e.ChildStarted(
                    at_ms=self._log.now_ms(),
                    run_id=self._log.run_id,
                    child_id=ids.session_id,
                    child_run_id=ids.run_id,
                    message_id=ids.message_id,
                    tool_call_id=call.tool_call_id,
                    name=self._name(call.tool_call_id),
                    settings=replace(settings, budget=None if budget == Budget() else budget),
                    background=args.background,
                    outlives=args.background and args.outlives_stop,
                )
            )
            await self._view.flush(self._log)
            return self._view.session.children[ids.session_id]
        finally:
            self._reserving.release()

    def _name(self, tool_call_id: str) -> str:
        """A name that is new in this session; those of one answer are numbered in the answer's order."""
        run = self._view.run(self._log.run_id)
        answer = run.tools[tool_call_id].attempt_id
        together = [
            call.asked.tool_call_id
            for call in run.tools.values()
            if call.own_tool == DELEGATE and call.attempt_id == answer
        ]
        earlier = [
            int(child.started.name.removeprefix(PREFIX))
            for child in self._view.session.children.values()
            if child.started.run_id != run.run_id or child.started.tool_call_id not in together
        ]
        return f"{PREFIX}{max(earlier, default=0) + together.index(tool_call_id) + 1}"

    async def _has_room(self, args: DelegateArgs, most: int) -> bool:
        """Whether one more may work; a call that waits for its sub-agent waits for room, too."""

        def open_ones() -> list[ChildState]:
            return [child for child in self._view.session.children.values() if child.ended is None]

        if args.background:
            if len(open_ones()) >= most:
                left = [one for one in open_ones() if self._view.run(one.started.run_id).outcome is not None]
                await self._children.look_after(left)
                await self._caught_up()
            return len(open_ones()) < most
        await self._children.until(lambda: len(open_ones()) < most, open_ones())
        return True

    async def _caught_up(self) -> None:
        store, session_id = self._deps.store, self._log.session_id
        await patiently(self._deps, lambda: self._view.catch_up(store, session_id))

    def _share(self, args: DelegateArgs, most: Budget | None) -> Budget | None:
        """The budget that the sub-agent gets: no more than its agent may have; None if nothing is left."""
        run = self._view.run(self._log.run_id)
        limits = RunLimits.of(run, self._deps)
        left = left_of(limits.shared, limits.spent(self._log.now_ms()))
        if left is None:
            return None
        begun = {child.started.tool_call_id for child in run.children.values()}
        sharers = [
            call
            for call in run.unfinished_tools
            if call.own_tool == DELEGATE and call.asked.tool_call_id not in begun
        ]
        wanted = Budget(**asdict(args.budget)) if args.budget is not None else None
        if most is not None:
            wanted = most if wanted is None else wanted.within(most)
        return share_of(left, wanted, sharers=len(sharers))

    def _settings(self, args: NamedTask, tools: Registry, agents: Mapping[str, NamedAgent]) -> RunSettings:
        """Return the settings of the sub-agent's run, with no more rights than this run."""
        run = self._view.run(self._log.run_id)
        own = run.settings
        if agents:
            named = agents[args.agent]
            return replace(
                own,
                model=named.model or own.model,
                instructions=named.instructions,
                tools=named.tools or NO_TOOLS,
                **_OWN_REQUEST,
            )
        names = [spec.name for spec in tools.specs()]
        if unknown := [name for name in args.tools or () if name not in names]:
            raise BadArguments(f"You have no tool {unknown[0]!r} to give. Yours are: {', '.join(names)}.")
        if args.tools is not None:
            allowed = tuple(dict.fromkeys(args.tools)) or NO_TOOLS
        elif run.client_tools:
            allowed = tuple(names)  # sub-agents get no tool that the client replaced
        else:
            allowed = own.tools
        if args.agent:
            given = replace(
                own, model=args.target, instructions=args.instructions, tools=allowed, budget=None
            )
            found = self._agent(args.agent, own).applied(replace(given, **_OWN_REQUEST))
            return replace(found, model=found.model or own.model)
        return replace(
            own,
            model=args.target or own.model,
            instructions="\n\n".join(text for text in (own.instructions, args.instructions) if text.strip()),
            tools=allowed,
            **_OWN_REQUEST,
        )

    def _agent(self, name: str, own: RunSettings) -> NamedAgent:
        agents = _agents(self._deps, own)
        if name not in agents:
            raise BadArguments(f"There is no agent {name!r}. There are: {', '.join(agents) or 'none'}.")
        return agents[name]

    async def _create(self, state: ChildState, args: DelegateArgs) -> None:
        session, started = self._view.session, state.started
        parent = ParentLink(
            session_id=self._log.session_id,
            run_id=self._log.run_id,
            tool_call_id=started.tool_call_id,
            name=started.name,
            depth=1 + _depth(session),
            background=started.background,
            home=session.home,
        )
        api_key = self._view.run(self._log.run_id).api_key
        chat = chat_of(session, self._log.session_id)
        child = NewChild(started, parent, args.task, api_key, session.approval_mode, chat)
        await create(self._deps, child)
        # The parent's mode may have become stricter while the session didn't exist yet.
        judge, mode = self._deps.judge, session.approval_mode
        if asks_less(judge.in_mode(child.mode).applied_mode(), judge.in_mode(mode).applied_mode()):
            chosen = mode_set(mode, at_ms=self._log.now_ms(), by=session.mode_set_by)
            await append(self._deps, started.child_id, [chosen], when=[IfSessionKnown()])

    async def _awaited(self, child: ChildState, call: RunningCall) -> None:
        """Wait for the sub-agent's ending, and show meanwhile what it does."""
        with call.resting():
            showing = asyncio.create_task(self._show(child, call), name=f"show {child.started.name}")
            self._log.live = self._live_line
            try:
                await self._children.until(lambda: child.ended is not None, [child])
            finally:
                showing.cancel()
                await wait_through_cancel(showing)
                self._lines.pop(child.started.name, None)
                if not self._lines:
                    self._log.live = None

    async def _show(self, child: ChildState, call: RunningCall) -> None:
        started, store = child.started, self._deps.store
        self._lines[started.name] = ""
        try:
            after = await store.last_seq(started.child_id)
            async for records in store.follow(started.child_id, after=after, pace="seldom"):
                for line in filter(None, (progress_line(record.event) for record in records)):
                    self._lines[started.name] = line
                    await call.say(f"{started.name}: {line}\n", stream="progress")
        except (JournalError, UnreadableEvent) as error:
            _log.info("what sub-agent %s does can't be shown: %s", started.child_id, error)

    def _live_line(self) -> str:
        count = len(self._lines)
        doing = [f"{name}: {line}" for name, line in self._lines.items() if line]
        return " · ".join([f"waiting for {count} sub-agent{'s' if count > 1 else ''}", *doing[-1:]])

    def _named(self, name: str) -> ChildState:
        children = self._view.session.children.values()
        for child in children:
            if child.started.name == name:
                return child
        known = ", ".join(child.started.name for child in children) or "none"
        raise BadArguments(f"There is no sub-agent {name!r}. There are: {known}.")

    async def status(self, asked: e.ToolAsked, _call: RunningCall, _tools: Registry) -> ToolResult:
        """Show one sub-agent, or all."""
        args = parsed(StatusArgs, asked.args)
        children = [self._named(args.name)] if args.name else list(self._view.session.children.values())
        lines = [await self._status_line(child) for child in children]
        return ToolResult("\n".join(lines) or "There are no sub-agents.")

    async def _status_line(self, child: ChildState) -> str:
        started, store = child.started, self._deps.store
        if child.ended is not None:
            return f"{started.name}: ended, {child.ended.outcome}"
        row = await patiently(self._deps, lambda: store.run(started.child_run_id))
        session = await patiently(self._deps, lambda: store.session(started.child_id))
        asks = await patiently(self._deps, lambda: store.open_asks(limit=1, session_id=started.child_id))
        state = "starting" if row is None else "waits for the user" if asks else row.status
        said = session.preview.strip().partition("\n")[0] if session is not None else ""
        return f"{started.name}: {state}" + (f"; last: {said}" if said else "")

    async def wait(self, asked: e.ToolAsked, call: RunningCall, _tools: Registry) -> ToolResult:
        """Wait until sub-agents have ended, but no longer than the model wants."""
        args = parsed(WaitArgs, asked.args)
        names = args.names
        children = (
            [self._named(name) for name in names] if names else list(self._view.session.children.values())
        )
        working = [child for child in children if child.ended is None]
        enough = all if names else any

        def is_over() -> bool:
            return not working or enough(child.ended is not None for child in working)

        with call.resting():
            waiting = asyncio.ensure_future(self._children.until(is_over, working))
            try:
                await asyncio.wait([waiting], timeout=args.seconds)
            finally:
                waiting.cancel()
                await wait_through_cancel(waiting)
        lines = [await self._status_line(child) for child in children]
        late = (
            ""
            if is_over()
            else f"\nStill working after {args.seconds:g} s; wait again, or do something else."
        )
        return ToolResult("\n".join(lines) + late if lines else "There are no sub-agents.")

    async def tail(self, asked: e.ToolAsked, _call: RunningCall, _tools: Registry) -> ToolResult:
        """Show the end of a sub-agent's transcript."""
        args = parsed(TailArgs, asked.args)
        child = self._named(args.name)
        fold = SharedFold()
        await patiently(self._deps, lambda: fold.catch_up(self._deps.store, child.started.child_id))
        return ToolResult(tail_of(fold.transcript, lines=args.lines) or "It has said nothing yet.")

    async def steer(self, asked: e.ToolAsked, call: RunningCall, _tools: Registry) -> ToolResult:
        """Send a message to a sub-agent."""
        args = parsed(SteerArgs, asked.args)
        started, deps = self._named(args.name).started, self._deps
        said = e.MessageAccepted(
            at_ms=self._log.now_ms(),
            message_id=message_of(call.effect_key),
            text=args.message,
            mode="steer",
            run_id=started.child_run_id,
        )
        once = IdempotencyKey(f"steer/{call.effect_key}", "steer", b"", self._log.now_ms() + KEPT_MS)
        when = [IfRunOpen(started.child_run_id)]
        result = await append(deps, started.child_id, [said], when=when, once=once)
        if isinstance(result, Declined):
            return ToolResult(f"{args.name} has ended, so it can't receive messages.", ok=False)
        deps.wakes.wake(started.child_id, 0)
        return ToolResult(f"{args.name} reads it before its next step.")

    async def stop(self, asked: e.ToolAsked, call: RunningCall, _tools: Registry) -> ToolResult:
        """Stop a sub-agent."""
        args = parsed(ChildArgs, asked.args)
        child = self._named(args.name)
        with call.resting():
            await self._children.stopped([child], cause=PARENT_STOPPED)
        ended = child.ended
        assert ended is not None, "it was waited for"
        if ended.cause == PARENT_STOPPED:
            return ToolResult(f"{args.name} was stopped. {ended.result}", blob=ended.blob)
        return ToolResult(f"{args.name} had ended already ({ended.outcome}). Its answer comes as a message.")


def _not_started(text: str) -> ToolResult:
    return ToolResult(text, ok=False, ending="not_started")


def _depth(session: Session) -> int:
    """The level of the session: 0 unless it's a sub-agent's."""
    return session.parent.depth if session.parent is not None else 0


def _task(tool: Delegate, args: Mapping[str, object]) -> NamedTask:
    """Return the task; the tool has checked the name of an agent that is described in advance."""
    if not tool.agents:
        return parsed(NamedTask, args)
    return NamedTask(task=str(args["task"]), agent=str(args["agent"]))


def _declared_tools(now: DeclaringRun) -> Mapping[str, ToolSpec | None]:
    """List the named agents. The verbs are for sub-agents in the background, so they come with the first."""
    tool = now.tools.get(DELEGATE)
    if isinstance(tool, Delegate) and _depth(now.session) >= tool.depth_max:
        return dict.fromkeys(CHILD_TOOLS)
    has_background = any(child.started.background for child in now.session.children.values())
    declared: dict[str, ToolSpec | None] = {} if has_background else dict.fromkeys(CHILD_VERBS)
    agents = _agents(now.deps, now.run.settings)
    if agents and isinstance(tool, Delegate) and not tool.agents:
        declared[DELEGATE] = delegate_among(tool, agents)
    return declared


def _agents(deps: AgentDeps, settings: RunSettings) -> Mapping[str, NamedAgent]:
    """The named agents for a run with these settings."""
    library: AgentLibrary | None = deps.features.get("delegation")
    return {} if library is None else library.known(Path(settings.workspace or deps.workspace))


def _recorded_tools(context: RunContext) -> Mapping[str, RecordedTool]:
    delegation = Delegation(context)
    return {
        DELEGATE: delegation.delegate,
        CHILD_STATUS: delegation.status,
        CHILD_WAIT: delegation.wait,
        CHILD_TAIL: delegation.tail,
        CHILD_STEER: delegation.steer,
        CHILD_STOP: delegation.stop,
    }


RUN = RunHooks(context=refreshed, declared_tools=_declared_tools, recorded_tools=_recorded_tools)
