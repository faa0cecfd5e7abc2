"""Attachments over HTTP: bytes in, their name out, and back again."""

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.server import BlobStored
from holdfast.server.contents import redacted_bytes
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, bad_request
from holdfast.server.routing import Endpoint
from holdfast.server.transport.bodies import has_already, json_response, read_body

NAME_CHARS = 64

# Types that a browser can show from our origin: images that can't contain a script.
_SHOWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


class BlobRoutes:
    """The routes under /api/blobs."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps

    async def upload(self, request: Request) -> Response:
        """POST /api/blobs."""
        limits = self._deps.limits
        data = await read_body(request, limits, bytes_max=limits.blob_bytes_max)
        if not data:
            raise bad_request("The body is empty. Send the bytes of the file", code="empty_blob")
        data = await redacted_bytes(data, self._deps.redactor)
        self._deps.uploads.add(len(data))
        name = await self._deps.store.offer_blob(data)
        media_type = request.headers.get("content-type", "application/octet-stream").partition(";")[0]
        return json_response(BlobStored(blob=name, bytes=len(data), media_type=media_type.strip()), 201)

    async def download(self, request: Request) -> Response:
        """GET /api/blobs/{blob}."""
        name: str = request.path_params["blob"]
        is_name = len(name) == NAME_CHARS and name.isascii() and name.isalnum()
        data = await self._deps.store.blob(name) if is_name else None
        if data is None:
            raise Problem(404, "No blob has this name", code="blob_not_found", param="blob")
        media_type = request.query_params.get("media_type", "")
        headers = {"Cache-Control": "private, max-age=31536000, immutable", "ETag": f'"{name}"'}
        if has_already(request, headers["ETag"]):
            return Response(None, 304, headers)
        if media_type not in _SHOWN:
            media_type = "application/octet-stream"
            headers["Content-Disposition"] = "attachment"
        return Response(data, 200, headers, media_type=media_type)


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    blobs = BlobRoutes(parts.deps)
    return {
        "blobs.upload": blobs.upload,
        "blobs.download": blobs.download,
    }
