"""Routes about the processes that a session's tools left running in the background."""

from http import HTTPStatus

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.live import BackgroundOutput
from holdfast.server.deps import RouteDeps
from holdfast.server.options import ReadJob
from holdfast.server.problems import Problem
from holdfast.server.sessions.sessions import session_of
from holdfast.server.transport.bodies import json_response

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
        elsewhere = await self._deps.file_requests.at_others(
            request, session_id, lacking=HTTPStatus.NOT_FOUND
        )
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
