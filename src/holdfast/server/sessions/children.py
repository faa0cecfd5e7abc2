"""Sub-agents over HTTP: the tree under a session.

Routes about the processes that a session's tools left running in the background.
"""

from http import HTTPStatus

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from holdfast.agent.children import used_by
from holdfast.agent.shared_fold import SharedFold
from holdfast.api.approvals import OpenAsk
from holdfast.api.children import ChildList, ChildShown, ParentShown
from holdfast.api.live import BackgroundOutput
from holdfast.api.runs import UsageShown
from holdfast.folds.child_lines import last_line, short
from holdfast.folds.phases import Phase
from holdfast.folds.run import ChildState, Run
from holdfast.server.deps import RouteDeps
from holdfast.server.options import ReadJob
from holdfast.server.problems import Problem
from holdfast.server.runs.run_state import open_ask_of
from holdfast.server.sessions.listing import DEPTH_MAX, root_of
from holdfast.server.sessions.sessions import session_of
from holdfast.server.transport.bodies import json_response
from holdfast.values import ChildUsage

TREE_MAX = 200  # how many sub-agents one response shows


class ChildRoutes:
    """The route for the sub-agents of a session."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def tree(self, request: Request) -> Response:
        """GET /api/sessions/{session_id}/children."""
        session_id = (await session_of(self._deps, request)).row.session_id
        view = await self._deps.supervisor.view(session_id)
        found: list[ChildShown] = []
        is_all = await self._add(session_id, view, found, depth=1)
        return json_response(
            ChildList(
                session_id=session_id,
                data=tuple(found),
                parent=await self._parent(view),
                has_more=not is_all,
            )
        )

    async def _add(self, session_id: str, view: SharedFold, found: list[ChildShown], *, depth: int) -> bool:
        """Add the session's sub-agents, each before its own; False if there are too many."""
        for child in sorted(view.session.children.values(), key=_number):
            if len(found) >= TREE_MAX or depth > DEPTH_MAX:
                return False
            theirs = await self._deps.supervisor.view(child.started.child_id)
            # A fork has the events of the original, whose sub-agents these are.
            parent = theirs.session.parent
            if parent is not None and parent.session_id != session_id:
                continue
            found.append(_shown(session_id, child, theirs, depth=depth))
            if not await self._add(child.started.child_id, theirs, found, depth=depth + 1):
                return False
        return True

    async def _parent(self, view: SharedFold) -> ParentShown | None:
        parent = view.session.parent
        if parent is None:
            return None
        return ParentShown(
            session_id=parent.session_id,
            run_id=parent.run_id,
            tool_call_id=parent.tool_call_id,
            name=parent.name,
            root_session_id=await root_of(self._deps.store, parent.session_id),
        )


def _shown(parent_id: str, child: ChildState, view: SharedFold, *, depth: int) -> ChildShown:
    started, ended, run = child.started, child.ended, view.session.runs.get(child.started.child_run_id)
    message = view.session.inbox.messages.get(started.message_id)
    return ChildShown(
        session_id=started.child_id,
        run_id=started.child_run_id,
        parent_session_id=parent_id,
        parent_run_id=started.run_id,
        tool_call_id=started.tool_call_id,
        name=started.name,
        depth=depth,
        status="ended" if ended is not None else _status(run),
        task=message.text if message is not None else "",
        last_line=_last_line(view, run),
        background=started.background,
        outcome=ended.outcome if ended is not None else None,
        cause=ended.cause if ended is not None else "",
        usage=_usage(ended.used if ended is not None else used_by(run) if run is not None else ChildUsage()),
        started_at=started.at_ms / 1000,
        ended_at=ended.at_ms / 1000 if ended is not None else None,
        asks=tuple(_asks(started.child_id, run)) if ended is None and run is not None else (),
    )


def _number(child: ChildState) -> int:
    """Sub-agents of one answer begin in any order, but their numbers follow the answer."""
    return int("".join(filter(str.isdecimal, child.started.name)) or 0)


def _status(run: Run | None) -> str:
    if run is None:
        return "starting"
    if run.phase is Phase.RUNNING and run.waits_for_children and not run.open_asks:
        return "waiting_for_children"
    return run.status


def _last_line(view: SharedFold, run: Run | None) -> str:
    """The beginning of its answer; while it works, what it said or did last."""
    if run is None:
        return ""
    if run.outcome is not None:
        return short(view.runs[run.run_id].output)
    return last_line(view.runs[run.run_id].view.entries)


def _usage(used: ChildUsage) -> UsageShown:
    return UsageShown(
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        total_tokens=used.input_tokens + used.output_tokens,
        cost_usd=used.cost_usd or None,
    )


def _asks(session_id: str, run: Run) -> list[OpenAsk]:
    found = [open_ask_of(session_id, ask.asked) for ask in run.open_asks]
    return [one for one in found if one is not None]


OUTPUT_CHARS_MAX = 16_000


class ProcessRoutes:
    """Shows a process and ends it; the one server whose child it is answers, whichever was asked."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def show(self, request: Request) -> Response:
        """GET /api/sessions/{session_id}/processes/{job_id}."""
        return await self._answer(request, self._deps.options.read_job)

    async def stop(self, request: Request) -> Response:
        """POST /api/sessions/{session_id}/processes/{job_id}/stop."""
        return await self._answer(request, self._deps.options.stop_job)

    async def _answer(self, request: Request, found_by: ReadJob) -> Response:
        session_id = (await session_of(self._deps, request)).row.session_id
        job_id = request.path_params["job_id"]
        found = await found_by(session_id, job_id)
        if found is not None:
            return json_response(self._redacted(found))
        elsewhere = await self._deps.peers.at_others(request, session_id, lacking=HTTPStatus.NOT_FOUND)
        if elsewhere is not None:
            return elsewhere
        raise Problem(404, f"This session has no process {job_id!r}", code="process_not_found")

    def _redacted(self, found: BackgroundOutput) -> BackgroundOutput:
        """Without secrets. They are looked for in more than is sent, so that none is cut in half."""
        secrets = self._deps.agent.secrets
        job = replace(
            found.job,
            command=secrets.redact_text(found.job.command),
            server=self._deps.store.node.name,
        )
        output, is_cut = secrets.redact_text(found.output), found.is_cut
        if is_cut or len(output) > OUTPUT_CHARS_MAX:
            output, is_cut = output[-OUTPUT_CHARS_MAX:].partition("\n")[2], True
        return replace(found, job=job, output=output, is_cut=is_cut)
