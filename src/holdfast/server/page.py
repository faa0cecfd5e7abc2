"""The page: the files of its build, read once and served from memory."""

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from starlette.requests import Request
from starlette.responses import Response

from holdfast.server.problems import Problem

INDEX = "index.html"

# The standard library would read the machine's own list, which differs and blocks.
_KINDS: Mapping[str, str] = MappingProxyType(
    {
        ".html": "text/html",
        ".js": "text/javascript",
        ".css": "text/css",
        ".json": "application/json",
        ".webmanifest": "application/manifest+json",
        ".svg": "image/svg+xml",
        ".png": "image/png",
        ".ico": "image/x-icon",
        ".woff2": "font/woff2",
    }
)


def read_page(folder: Path | None) -> dict[str, bytes]:
    """The files of the built page by their names, none if it is not built; it blocks."""
    if folder is None or not folder.is_dir():
        return {}
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class PageRoutes:
    """What the routes do that no API route takes: a file of the page, or the page itself for its own URLs."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    async def show(self, request: Request) -> Response:
        """GET / and everything that is left."""
        name: str = request.path_params.get("path", "") or INDEX
        if name not in self._files and "." not in name and not name.startswith(("v1", "api", "p/")):
            name = INDEX
        body = self._files.get(name)
        if body is None:
            raise Problem(404, "There is no such route", code="not_found")
        kind = _KINDS.get(PurePosixPath(name).suffix, "application/octet-stream")
        # Names of built files hold a hash of their content; the page itself must be asked for anew.
        kept = "no-cache" if name == INDEX else "public, max-age=31536000, immutable"
        return Response(body, 200, {"Cache-Control": kept}, media_type=kind)
