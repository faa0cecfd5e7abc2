"""The tool calls of an answer: approve, execute, record; each effect happens at most once.

The intent (`tool.started`) is on disk before the effect, and the result (`tool.ended`) after it. Calls
without an ending in the log are finished here, so a first run and a resume use the same path.
"""

import asyncio
import dataclasses
import logging
from collections.abc import AsyncGenerator, Awaitable, Iterable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast import events as e
from holdfast.agent import run_hooks
from holdfast.agent.asks import Asks
from holdfast.agent.deps import AgentDeps
from holdfast.agent.instructions import subfolder_guides
from holdfast.agent.policy import mode_in, refuse_hopeless
from holdfast.agent.run_hooks import after_turn, before_change, in_loop_tools, only_reads, recorded_tools
from holdfast.agent.runlog import RunLog
from holdfast.agent.running_call import NOBODY, NOT_STARTED, RunningCall, answer_to, stopped
from holdfast.agent.shared_fold import SharedFold
from holdfast.agent.tool_set import usable
from holdfast.folds.phases import Phase
from holdfast.folds.run import AskStatus, CallState, Run
from holdfast.interfaces.feature import FileEdit, InLoopTool, RunContext
from holdfast.interfaces.journal import JournalError
from holdfast.interfaces.tool import NobodyAnswered, Tool, ToolResult
from holdfast.interfaces.workspace_paths import WorkspaceMoved, unmoved
from holdfast.policy.tool_names import ASK_USER, FIND_TOOLS, READ_RESULT, tool_kind
from holdfast.policy.verdicts import Allow, Deny, NeedsApproval, Verdict, deny_unattended
from holdfast.redaction import StreamFilter
from holdfast.sandbox.confinement import Confinable, Confinement
from holdfast.tools.arguments import BadArguments, arguments_hash, effect_key, parsed
from holdfast.tools.ask import AskUserArgs
from holdfast.tools.offload import offload
from holdfast.tools.on_demand import FindToolsArgs, matching_tools
from holdfast.tools.registry import insist_on_arguments
from holdfast.tools.shell.marker import why_daemons_hide
from holdfast.values import Action, ApprovalMode, Choice, GrantRule, Lift, asks_less

_log = logging.getLogger(__name__)

_NumberedCall: TypeAlias = tuple[CallState, int, Tool | None]  # call, position in the answer, tool

UNKNOWN = (
    "The server stopped while this ran; whether it took effect is unknown. It was not run again. "
    "Find out what happened before you repeat it."
)
LEASE_S_MIN = 1.0  # an effect begins only if the node's lease lasts this long
LEASE_LOOK_S = 0.1
REPEATS_UNKNOWN = "the same action ran before, and it's unknown whether it took effect"
REPEATS = "Repeats an action that may already have taken effect"
REPEATS_ONCE = "The same action may already have taken effect, so you can only allow it once."
# The most that the policy reads per answer, not counting here-documents.
JUDGED_BYTES_MAX = 32 * 1024
TOO_MUCH = (
    f"Not run: the commands in this answer are longer than {JUDGED_BYTES_MAX // 1024} kB in total, "
    "which is too much to judge at once. Send fewer or shorter ones."
)
OFFLINE = "Not run: this run must not use the network."
NO_SANDBOX = "Not run: this run must not use the network, and there is no sandbox that could hold it to that."
NO_CLIENT = ToolResult("The client didn't return a result for this call.", ok=False, ending="expired")
WORKSPACE_CHANGED = "Not run: the workspace changed while this was being decided. Call it again."
MODE_CHANGED = (
    "Not run: the user switched to a stricter permission mode while this was being decided. Call it again."
)
CLIENT_IN_PLAN_MODE = "Not run: the session is in plan mode, where you can only read."
USED_UP = "Not run: {name} failed {times}, so this run can't call it any more. Continue without it."
READ_ON = '[Read the rest with read_result {{"blob": "{blob}", "first_char": …}}.]'
CHANGED = "The action has changed since it was approved, so it needs a new approval."


class Judged(Struct, frozen=True):
    """An action, the verdict on it in a mode, and what a person may answer."""

    action: Action
    verdict: Verdict
    choices: tuple[Choice, ...]
    mode: ApprovalMode


class ToolCalls:
    """Finishes the tool calls of one run."""

    def __init__(self, view: SharedFold, log: RunLog, deps: AgentDeps) -> None:
        self._view = view
        self._log = log
        self._deps = deps
        self._people = Asks(view, log, deps)
        self._context = RunContext(view, log, self._people, deps)
        run = view.run(log.run_id)
        self._settings = run.settings
        self.tools = usable(view, run, deps, session_id=log.session_id)  # last offered to the model
        self._begun: dict[str, float] = {}  # calls that were executed, and since when
        self._approved: dict[str, str] = {}  # digests of approved actions, by call
        # How many bytes of each command the policy reads; None if it doesn't read the command.
        self._read_bytes: dict[str, int | None] = {}
        self._judged_paths: dict[str, tuple[str, ...]] = {}  # the paths that each call may use, by id
        self._lifts: dict[str, Lift] = {}  # what of the sandbox is lifted for each call, by id
        self._judged_modes: dict[str, ApprovalMode] = {}  # the modes that calls were allowed in, by id
        self._shortfalls: dict[str, str] = {}  # what the sandbox couldn't hold when each call was judged
        self._workspace = Path(self._settings.workspace or deps.workspace)
        self._changing = asyncio.Lock()  # changes are prepared one at a time
        # The effects of these are only in the log.
        self._in_loop: Mapping[str, InLoopTool] = {
            ASK_USER: partial(_question, self._people, unattended=self._settings.unattended),
            **in_loop_tools(self._context),
        }
        self._recorded = recorded_tools(self._context)

    async def finish_open_calls(self) -> bool:
        """Finish every open call, in order; False if an expired ask must end the run."""
        self._read_bytes.clear()
        tools, run = self.tools, self._view.run(self._log.run_id)
        only_read = self._mode == "plan" or only_reads(run)
        mine = [call for call in run.unfinished_tools if only_read or not _is_for_client(call)]
        numbered = [(call, _place(run, call), tools.get(call.own_tool)) for call in mine]
        await self._ask_ahead([(call, tool) for call, _, tool in numbered])
        for in_parallel, group in groupby(numbered, key=lambda item: self._is_parallel(item[2])):
            finish = self._in_parallel if in_parallel else self._in_order
            may_continue = await finish(group)
            await self._view.flush(self._log)
            if not may_continue:
                break
        else:
            may_continue = True
        await after_turn(self._context)
        # The client's come last: when it has them, its request is answered, and the run waits for the next.
        return may_continue and await self._finish_by_client(run.unfinished_tools)

    def _is_parallel(self, tool: Tool | None) -> bool:
        if tool is None or not tool.traits.parallel_safe:
            return False
        return tool.traits.read_only or tool.spec.name in self._recorded

    async def _finish_by_client(self, calls: Sequence[CallState]) -> bool:
        if not calls:
            return True
        ask = await self._people.client_results(tuple(call.asked.tool_call_id for call in calls))
        results = {result.tool_call_id: result for result in ask.results}
        for call in calls:
            result = results.get(call.asked.tool_call_id)
            self._ended(call, NO_CLIENT if result is None else ToolResult(result.text, parts=result.parts))
        await self._view.flush(self._log)
        return ask.state == "answered" or self._deps.on_expiry == "continue"

    async def _in_parallel(self, calls: Iterable[_NumberedCall]) -> bool:
        async with asyncio.TaskGroup() as tasks:
            ends = [tasks.create_task(self._finish_call(call, tool, ordinal=n)) for call, n, tool in calls]
        return all(end.result() for end in ends)

    async def _in_order(self, calls: Iterable[_NumberedCall]) -> bool:
        for call, ordinal, tool in calls:
            if not await self._finish_call(call, tool, ordinal=ordinal):
                return False
        return True

    async def _finish_call(self, call: CallState, tool: Tool | None, *, ordinal: int) -> bool:
        was_begun = call.started is not None  # before a crash
        try:
            result = await self._result(call, tool, ordinal=ordinal)
        except asyncio.CancelledError as stop:
            # A shutdown settles nothing: an open approval is still open after the restart.
            if self._view.run(self._log.run_id).phase is Phase.STOPPING:
                result = stopped(begun=was_begun or call.asked.tool_call_id in self._begun)
                self._ended(call, replace(result, text=_with_notes(result.text, stop)))
            raise
        await self._people.withdraw(call.asked.tool_call_id)
        if result.blob and self.tools.get(READ_RESULT) is not None:
            read_on = READ_ON.format(blob=result.blob)
            result = replace(result, advice="\n".join(filter(None, [result.advice, read_on])))
        try:
            shown = await self._with_guides(call.asked, result)
        except asyncio.CancelledError:
            self._ended(call, result)  # what it did is known
            raise
        self._ended(call, shown)
        await run_hooks.after_result(self._context, call.asked, shown)
        return result.ending != "expired" or self._deps.on_expiry == "continue"

    async def _result(self, call: CallState, tool: Tool | None, *, ordinal: int) -> ToolResult:
        asked = call.asked
        run = self._view.run(self._log.run_id)
        is_known = tool is not None or call.owner == "client"
        if is_known and asked.bad_args:
            return _not_run(f"The arguments are not a JSON object: {asked.bad_args[:500]}")
        if is_known and (why := self._kept_back(tool)):
            return _not_run(why)
        if tool is None and call.started is None:
            return _not_run(self.tools.unknown(asked.name, others=[one.name for one in run.client_tools]))
        if tool is None:
            return ToolResult(UNKNOWN, ok=False, ending="unknown")
        most = tool.traits.failures_max
        if most and call.started is None and run.failures_in_a_row(asked.name) >= most:
            return _not_run(USED_UP.format(name=asked.name, times="once" if most == 1 else f"{most} times"))
        can_repeat = tool.traits.read_only or (tool.traits.idempotent and self._mode != "plan")
        if call.started is not None and not can_repeat:
            why = await offload(why_daemons_hide)
            text = f"{UNKNOWN} What it started may still be running: {why}." if why else UNKNOWN
            return ToolResult(text, ok=False, ending="unknown")
        try:
            insist_on_arguments(tool, asked.args)
            in_loop = self._in_loop_tool(asked.name)
            decide = self._not_allowed if in_loop is None else self._not_allowed_in_loop
            if call.started is None and (refused := await decide(asked, tool)) is not None:
                return refused
            if (denied := await run_hooks.narrow(self._context, asked)) is not None:
                return denied
            return await (self._run(call, tool, ordinal=ordinal) if in_loop is None else in_loop(asked))
        except (BadArguments, WorkspaceMoved) as error:
            return _not_run(str(error))

    async def _with_guides(self, asked: e.ToolAsked, result: ToolResult) -> ToolResult:
        """The result, with what context files say about the folders of the files that were touched."""
        paths = self._judged_paths.get(asked.tool_call_id, ())
        if not result.ok or not paths or tool_kind(asked.name) not in {"read", "write"}:
            return result
        if not await asyncio.to_thread(self._deps.trusts, self._workspace):
            return result
        run = self._view.run(self._log.run_id)
        guides = await subfolder_guides(self._deps.workspaces, self._workspace, paths, run=run)
        return replace(result, text=f"{result.text}\n\n{guides}") if guides else result

    def _kept_back(self, tool: Tool | None) -> str:
        """Why the tool, or one of the client, isn't run: it may change something while the run only reads."""
        if tool is not None and tool.traits.read_only:
            return ""
        # The client would be running its tool, if the run could do more than read.
        return only_reads(self._view.run(self._log.run_id)) or (
            "" if tool is not None else CLIENT_IN_PLAN_MODE
        )

    def _in_loop_tool(self, name: str) -> "InLoopTool | None":
        # As a value of the mapping, this method would make a reference cycle of all that the run holds.
        return self._find_tools if name == FIND_TOOLS else self._in_loop.get(name)

    async def _find_tools(self, asked: e.ToolAsked) -> ToolResult:
        rare = [tool.spec for tool in self.tools.all() if tool.spec.on_demand]
        return matching_tools(rare, parsed(FindToolsArgs, asked.args).query)

    async def _ask_ahead(self, calls: Sequence[tuple[CallState, Tool | None]]) -> None:
        """Ask for all approvals of the answer at once, so that people can settle them in any order."""
        changing: set[str] = set()
        for call, tool in calls:
            asked = call.asked
            is_in_loop = self._in_loop_tool(asked.name) is not None
            if tool is None or is_in_loop or asked.bad_args or call.started or self._kept_back(tool):
                continue
            try:
                insist_on_arguments(tool, asked.args)
                judged = await self._judged(asked, tool, self._mode)
            except (BadArguments, WorkspaceMoved):
                continue  # the model gets the result in the order of the calls
            # The effect of a later call on the same file is unknown until the earlier one is done.
            can_be_shown = changing.isdisjoint(judged.action.paths)
            if can_be_shown and self._people.earlier(asked.tool_call_id) is None:
                await self._ask(asked, judged)
            if judged.action.diff:
                changing.update(judged.action.paths)

    async def _ask(self, asked: e.ToolAsked, judged: "Judged") -> AskStatus | None:
        """Store and return an approval request for the action; None if it needs no approval."""
        if not isinstance(judged.verdict, NeedsApproval):
            return None
        self._people.ask_about(asked.tool_call_id, judged.action, judged.verdict, choices=judged.choices)
        await self._view.flush(self._log)
        return self._people.earlier(asked.tool_call_id)

    async def _not_allowed(self, asked: e.ToolAsked, tool: Tool) -> ToolResult | None:
        """Return None if the action is allowed, or else the result for the model."""
        ask = self._people.earlier(asked.tool_call_id)
        while True:
            if ask is not None and (refused := _settled_result(await self._people.resolved(ask))) is not None:
                return refused
            # People may answer late: what they were shown may no longer be what would happen.
            judged = await self._judged(asked, tool, self._mode)
            if not await self._is_undoable(asked, judged):
                judged = await self._judged(asked, tool, "ask")
            is_approved = ask is not None and self._people.is_about(ask, judged.action)
            verdict = judged.verdict
            if isinstance(verdict, Deny) and not (is_approved and verdict.reason == "no_approver"):
                return ToolResult(verdict.why, ok=False, ending=verdict.reason)
            if is_approved:
                self._approved[asked.tool_call_id] = judged.action.digest
            if is_approved or not isinstance(verdict, NeedsApproval):
                self._judged_paths[asked.tool_call_id] = judged.action.paths
                self._judged_modes[asked.tool_call_id] = judged.mode
                self._lifts[asked.tool_call_id] = judged.action.lift
                self._shortfalls[asked.tool_call_id] = judged.action.shortfall
                return None
            findings = verdict.findings if ask is None else (CHANGED, *verdict.findings)
            ask = await self._ask(
                asked, replace(judged, verdict=dataclasses.replace(verdict, findings=findings))
            )

    async def _not_allowed_in_loop(self, asked: e.ToolAsked, tool: Tool) -> ToolResult | None:
        """As `_not_allowed`. Before a crash, the tool itself may have asked a person: that's no approval."""
        if asked.name == FIND_TOOLS:  # no rule can name it
            return None
        judged = await self._judged(asked, tool, self._mode)
        return None if isinstance(judged.verdict, Allow) else await self._not_allowed(asked, tool)

    async def _is_undoable(self, asked: e.ToolAsked, judged: "Judged") -> bool:
        """Whether the files are stored, if that's why the mode allows the action."""
        is_edit = judged.mode == "edits" and tool_kind(asked.name) == "write"
        if not is_edit or not isinstance(judged.verdict, Allow):
            return True
        from holdfast.tools.files.edits import bytes_after_max  # no other mode needs it

        paths = judged.action.paths
        bytes_max = await asyncio.to_thread(bytes_after_max, asked.name, asked.args, paths=paths)
        async with self._changing:
            return await before_change(self._context, FileEdit(paths, bytes_max))

    async def _judged(self, asked: e.ToolAsked, tool: Tool, mode: ApprovalMode) -> "Judged":
        """The verdict on the action in this mode."""
        # Read now, because the log can grow while a thread looks at files.
        grants = [grant.rule for grant in self._view.session.grants.values()]
        judged = await asyncio.to_thread(self._judge, asked, tool, grants, mode)
        verdict = judged.verdict
        is_known = tool.traits.read_only or asked.name in self._recorded
        if isinstance(verdict, Deny) or is_known or not self._repeats_unknown(asked):
            return judged
        findings = verdict.findings if isinstance(verdict, NeedsApproval) else ()
        verdict = self._as_attended(self._deps.judge.in_mode(mode).for_a_person((REPEATS_UNKNOWN, *findings)))
        if isinstance(verdict, NeedsApproval):
            verdict = dataclasses.replace(verdict, headline=REPEATS, once_because=REPEATS_ONCE)
        return Judged(judged.action, verdict, ("once", "deny"), mode)

    @property
    def _mode(self) -> ApprovalMode:
        return mode_in(self._deps.judge, self._view.session, self._settings)

    def _judge(
        self, asked: e.ToolAsked, tool: Tool, grants: Sequence[GrantRule], mode: ApprovalMode
    ) -> "Judged":
        """Blocks on files, so it runs in a thread."""
        judge, place = self._deps.judge.in_mode(mode), Path(unmoved(self._workspace))
        self._deps.trusts(place)  # the policy reads git's configuration
        action = _action(tool, asked, place)
        if self._is_too_much(asked, action):
            return Judged(action, Deny(TOO_MUCH), (), mode)
        if self._settings.offline and self._may_need_network(asked, action):
            return Judged(action, Deny(OFFLINE), (), mode)
        verdict = self._as_attended(judge.verdict(action, grants, workspace=place))
        if not isinstance(verdict, NeedsApproval):
            return Judged(action, verdict, (), mode)
        refuse_hopeless(tool, asked.args, action=action, judge=judge, workspace=place)
        choices = judge.choices(action, grants, workspace=place)
        if not verdict.offers and "session" in choices:
            from holdfast.policy.grants import offer_of  # imported by the judge

            rule = judge.rule(action, grants, workspace=place)
            verdict = dataclasses.replace(verdict, offers=() if rule is None else (offer_of(rule),))
        return Judged(action, verdict, choices, mode)

    def _may_need_network(self, asked: e.ToolAsked, action: Action) -> bool:
        """Whether it may use the network; a tool that Holdfast doesn't know may if the run names it."""
        lift, kind = action.lift, tool_kind(asked.name)
        is_lifted = lift.network or lift.everything or bool(lift.hosts)
        is_unknown = kind is None and asked.name not in self._settings.tools
        return is_lifted or is_unknown or kind == "fetch"

    def _as_attended(self, verdict: Verdict) -> Verdict:
        """Return the verdict, with approvals denied in an unattended run."""
        if self._settings.unattended and isinstance(verdict, NeedsApproval):
            return deny_unattended(verdict.findings)
        return verdict

    def _is_too_much(self, asked: e.ToolAsked, action: Action) -> bool:
        """Whether this command exceeds what may still be judged of this answer."""
        if action.argv and asked.tool_call_id not in self._read_bytes:
            from holdfast.policy.shell.syntax import syntax_bytes  # the first command imports the parser

            size, spent = sum(map(syntax_bytes, action.argv)), sum(filter(None, self._read_bytes.values()))
            fits = not spent or spent + size <= JUDGED_BYTES_MAX
            self._read_bytes[asked.tool_call_id] = size if fits else None
        return action.argv != () and self._read_bytes[asked.tool_call_id] is None

    def _repeats_unknown(self, asked: e.ToolAsked) -> bool:
        digest = arguments_hash(asked.name, asked.args)
        return any(
            tool.ended is not None
            and tool.ended.ending in {"unknown", "killed"}
            and arguments_hash(tool.own_tool, tool.asked.args) == digest
            for run in self._view.session.runs.values()
            for tool in run.tools.values()
        )

    async def _run(self, call: CallState, tool: Tool, *, ordinal: int) -> ToolResult:
        asked, run = call.asked, self._view.run(self._log.run_id)
        key = effect_key(run.run_id, run.turns, ordinal=ordinal, tool=asked.name, args=asked.args)
        key = key if call.started is None else call.started.effect_key
        await self._deps.drain.checkpoint(run.run_id)
        if not tool.traits.read_only:
            async with self._changing:
                await before_change(self._context)
        confinement = await self._confinement(asked, tool)
        if self._settings.offline and isinstance(tool, Confinable) and confinement is None:
            return _not_run(NO_SANDBOX)
        if confinement and confinement.shortfall not in self._shortfalls.get(asked.tool_call_id, ""):
            return _not_run(f"{WORKSPACE_CHANGED} {confinement.shortfall}")
        self._log.emit(
            e.ToolStarted(
                at_ms=self._log.now_ms(),
                run_id=run.run_id,
                tool_call_id=asked.tool_call_id,
                effect_key=key,
                profile=confinement.profile.digest if confinement else "",
                home=self._deps.placement.home_for(
                    tool.traits.place, self._workspace, current=self._view.session.home
                ),
            )
        )
        await self._view.flush(self._log)
        await self._until_leased()
        await self._view.block_if_stopping(run.run_id)
        if self._is_stricter_now(asked):
            return _not_run(MODE_CHANGED)
        one = RunningCall(
            self._log.session_id,
            run.run_id,
            asked.tool_call_id,
            key,
            self._workspace,
            self._deps.store,
            self._log,
            StreamFilter(self._log.secrets),
            self._people,
            asyncio.timeout(tool.traits.patience_s),
            self._approved.get(asked.tool_call_id, ""),
            self._judged_paths.get(asked.tool_call_id, ()),
            confinement,
            unattended=self._settings.unattended,
            api_key=run.api_key,
        )
        self._begun[asked.tool_call_id] = self._deps.clock.monotonic_s()
        try:
            async with self._approving(asked):
                recorded = self._recorded.get(asked.name)
                work = recorded(asked, one, self.tools) if recorded else tool.run(asked.args, one)
                return await _run_guarded(tool, work, one)
        finally:
            one.end()
            if asked.name not in self._recorded:  # what sub-agents need is the call's own time
                self._begun[asked.tool_call_id] += one.asked_s

    def _is_stricter_now(self, asked: e.ToolAsked) -> bool:
        """Whether the mode changed since the call was allowed, so that it may no longer be."""
        mode, allowed_in = self._mode, self._judged_modes.get(asked.tool_call_id)
        if allowed_in is None or not asks_less(allowed_in, mode):
            return False
        return mode == "plan" or asked.tool_call_id not in self._approved

    async def _until_leased(self) -> None:
        """Wait while another node might consider this one dead and repeat the effect."""
        while self._deps.store.node.lease_left_s < LEASE_S_MIN:
            await self._deps.clock.sleep_s(LEASE_LOOK_S)

    @asynccontextmanager
    async def _approving(self, asked: e.ToolAsked) -> AsyncGenerator[None]:
        """While a file tool writes protected files, no sandboxed command is blamed for it."""
        protected, paths = self._deps.protected, self._judged_paths.get(asked.tool_call_id, ())
        if protected is None or tool_kind(asked.name) != "write" or not paths:
            yield
            return
        opened = ExitStack()
        await asyncio.to_thread(opened.enter_context, protected.approving(self._workspace, paths))
        try:
            yield
        finally:
            await asyncio.shield(asyncio.to_thread(opened.close))

    async def _confinement(self, asked: e.ToolAsked, tool: Tool) -> Confinement | None:
        """Return the confinement of the tool's programs."""
        if not isinstance(tool, Confinable):
            return None
        lift = self._lifts.get(asked.tool_call_id, Lift())

        def confined() -> Confinement | None:
            return tool.confinement(asked.args, workspace=Path(unmoved(self._workspace)), lift=lift)

        found = await asyncio.to_thread(confined)
        if found is None or not self._settings.offline:
            return found
        return replace(found, profile=replace(found.profile, network="off", hosts=()))

    def _ended(self, call: CallState, result: ToolResult) -> None:
        now_s = self._deps.clock.monotonic_s()
        # Time spent waiting for a person isn't the tool's.
        began_s = self._begun.get(call.asked.tool_call_id, now_s)
        self._log.emit(
            e.ToolEnded(
                at_ms=self._log.now_ms(),
                run_id=self._log.run_id,
                tool_call_id=call.asked.tool_call_id,
                ok=result.ok,
                result=result.text,
                ending=result.ending,
                parts=result.parts,
                blob=result.blob,
                ms=int(1000 * (now_s - began_s)),
                sent=result.sent,
                advice=result.advice,
                proposal=result.proposal,
            )
        )


def _place(run: Run, call: CallState) -> int:
    """The call's position in its answer, which stays the same when earlier calls have ended."""
    answer = (one for one in run.tools.values() if one.attempt_id == call.attempt_id)
    return next(place for place, one in enumerate(answer) if one is call)


def _action(tool: Tool, asked: e.ToolAsked, workspace: Path) -> Action:
    """Return the action of the call; raises BadArguments, also if the tool can't describe it."""
    try:
        return tool.action(asked.args, workspace=workspace)
    except BadArguments:
        raise
    except Exception as error:  # a tool is someone else's code
        _log.exception("tool %s can't describe its action", tool.spec.name)
        raise BadArguments(f"The tool can't say what this would do: {error!r}") from error


async def _run_guarded(tool: Tool, work: Awaitable[ToolResult], one: RunningCall) -> ToolResult:
    """Run the tool within its patience; whatever it raises becomes its result and doesn't end the run."""
    try:
        async with one.deadline:
            return await work
    except NobodyAnswered as error:
        return _unanswered(error)
    except TimeoutError as late:
        if not one.deadline.expired():
            return ToolResult(f"The tool failed: {late!r}", ok=False)
        text = (
            f"Not finished after {tool.traits.patience_s:g} s, so it was stopped; it may have had an effect."
        )
        return ToolResult(_with_notes(text, late.__context__), ok=False, ending="killed")
    except (JournalError, BadArguments):
        raise
    except Exception as error:  # a tool is someone else's code
        _log.exception("tool %s raised", tool.spec.name)
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # Cleanup code that fails must not turn a stop into a result.
            raise asyncio.CancelledError from error
        return ToolResult(f"The tool failed: {error!r}", ok=False)


def _with_notes(text: str, error: BaseException | None) -> str:
    """The text, plus notes from a tool that was stopped: which of its processes are still alive."""
    notes: Sequence[str] = getattr(error, "__notes__", ())
    return " ".join([text, *(f"[{note}]" for note in notes)])


def _is_for_client(call: CallState) -> bool:
    """Whether the client runs it; the model itself must repair arguments that are no JSON object."""
    return call.owner == "client" and not call.asked.bad_args


def _not_run(text: str) -> ToolResult:
    return ToolResult(text, ok=False, ending="not_started")


async def _question(people: Asks, asked: e.ToolAsked, *, unattended: bool) -> ToolResult:
    if unattended:
        return _unanswered(NobodyAnswered(NOBODY))
    ask = await people.question(asked.tool_call_id, parsed(AskUserArgs, asked.args))
    try:
        return ToolResult(answer_to(ask))
    except NobodyAnswered as error:
        return _unanswered(error)


def _unanswered(error: NobodyAnswered) -> ToolResult:
    return ToolResult(str(error), ok=False, ending=error.ending)


def _settled_result(ask: AskStatus) -> ToolResult | None:
    """The result of a settled approval for the model; None if the call may proceed."""
    match ask.state:
        case "answered":
            if ask.answer != "deny":
                return None
            why = f": {ask.reason}" if ask.reason else "."
            return ToolResult(f"This was denied{why}", ok=False, ending="denied")
        case "expired":
            return ToolResult("No one approved this in time, so it wasn't done.", ok=False, ending="expired")
        case _:
            return _not_run(NOT_STARTED)
