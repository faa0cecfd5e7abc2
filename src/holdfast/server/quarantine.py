"""The quarantine over HTTP: list, restore and delete unapproved changes."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.server import QuarantineDeleted, QuarantineEntry, QuarantineList, QuarantineRestored
from holdfast.sandbox.quarantine import NotInQuarantine, Quarantine, QuarantinedFile, readable
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem
from holdfast.server.routing import Endpoint
from holdfast.server.transport.bodies import json_response
from holdfast.tools.offload import offload

LISTED_MAX: Final = 1_000


class QuarantineRoutes:
    """The routes under /api/quarantine."""

    def __init__(self, deps: RouteDeps) -> None:
        data_dir = deps.options.data_dir
        self._quarantine = Quarantine(data_dir / "quarantine") if data_dir is not None else None
        self._workspaces = deps.workspaces
        self._one_at_a_time = asyncio.Lock()

    async def list(self, request: Request) -> Response:
        """GET /api/quarantine."""
        del request
        found = await offload(self._quarantine.files) if self._quarantine is not None else ()
        shown = [each.readable() for each in found[:LISTED_MAX]]
        entries = [
            QuarantineEntry(id=each.id, path=each.path, kept=each.kept, taken_at=each.taken_at)
            for each in shown
        ]
        return json_response(QuarantineList(tuple(entries), has_more=len(found) > LISTED_MAX))

    async def restore(self, request: Request) -> Response:
        """POST /api/quarantine/{file_id}/restore."""
        file = await self._acted(request, Quarantine.restore)
        return json_response(QuarantineRestored(id=file.id, path=file.readable().path, restored=True))

    async def delete(self, request: Request) -> Response:
        """DELETE /api/quarantine/{file_id}."""
        file = await self._acted(request, Quarantine.drop)
        return json_response(QuarantineDeleted(id=file.id, deleted=True))

    async def _acted(
        self, request: Request, act: Callable[[Quarantine, str], QuarantinedFile]
    ) -> QuarantinedFile:
        file_id: str = request.path_params["file_id"]
        if self._quarantine is None:
            raise _not_found(f"Nothing in quarantine has the id {file_id}")
        try:
            async with self._one_at_a_time:
                file = await offload(partial(self._quarantine.file, file_id))
                await self._workspaces.allowed(file.path.rpartition("/")[0] or "/")
                return await offload(partial(act, self._quarantine, file_id))
        except NotInQuarantine as refused:
            raise _not_found(str(refused)) from refused
        except OSError as error:
            where = f" ({readable(str(error.filename))})" if error.filename else ""
            text = f"The file can't be moved: {error.strerror or error}{where}"
            raise Problem(409, text, code="file_unusable") from error


def _not_found(text: str) -> Problem:
    return Problem(404, text, code="not_in_quarantine", param="file_id")


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    quarantine = QuarantineRoutes(parts.deps)
    return {
        "quarantine.list": quarantine.list,
        "quarantine.restore": quarantine.restore,
        "quarantine.delete": quarantine.delete,
    }
