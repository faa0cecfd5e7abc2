"""The page: the files of its build, read once and served from memory, but for the largest."""

import asyncio
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TypeAlias

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdfast.server.problems import Problem
from holdfast.server.transport.bodies import has_already
from holdfast.server.unserved import no_such_route

INDEX = "index.html"
HASHED = "assets/"
_METHODS = ("GET", "HEAD")
ZIPPED = ".gz"
HELD_BYTES_MAX = 128 * 1024  # of a file with a hash in its name; few visitors draw diagrams, which take 7 MB
BUILT = Path(__file__).parents[1] / "web"

# The page loads nothing from other origins, and uses only its own files. This replaces the
# middleware's policy for all routes, and allows less.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; font-src 'self'; "
    "img-src 'self' data: blob:; manifest-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)

# Diagrams are drawn in a document of an opaque origin, without network. Only the page embeds it, and the page
# gets a drawing as an image. Mermaid needs styles in the document.
DIAGRAM = "diagram.html"
DIAGRAM_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox allow-scripts"
)
_DIAGRAM_SCRIPT = "assets/diagram-"

# The standard library would read the machine's own list, which varies and blocks the loop.
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


_OWN_ADDRESS = re.compile(rb'((?:src|href)=")/')
# The bytes of a file, or where they are.
Content: TypeAlias = bytes | Path


def read_page(folder: Path | None) -> dict[str, Content]:
    """The files of the built page by name; empty if it isn't built. Blocks."""
    if folder is None or not folder.is_dir():
        return {}
    return {
        name: path if name.startswith(HASHED) and path.stat().st_size > HELD_BYTES_MAX else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and (name := path.relative_to(folder).as_posix())
    }


class _File(Struct, frozen=True):
    """A file of the page: its content, plain and compressed, and its headers."""

    body: Content
    zipped: Content | None
    headers: Mapping[str, str]

    @classmethod
    def of(cls, name: str, files: Mapping[str, Content]) -> "_File":
        body, zipped = files[name], files.get(name + ZIPPED)
        kind = _KINDS.get(PurePosixPath(name).suffix, "application/octet-stream")
        # Names of built files contain a hash of their content; all others must be revalidated.
        kept = "public, max-age=31536000, immutable" if name.startswith(HASHED) else "no-cache"
        headers = {
            "Content-Type": f"{kind}; charset=utf-8" if kind.startswith("text/") else kind,
            "Cache-Control": kept,
            # A large file's name says which version it is.
            "ETag": f'"{sha256(name.encode() if isinstance(body, Path) else body).hexdigest()[:32]}"',
        }
        if zipped is not None:
            headers["Vary"] = "Accept-Encoding"
        if name == INDEX:
            headers["Content-Security-Policy"] = POLICY
        elif name == DIAGRAM:
            headers |= {"Content-Security-Policy": DIAGRAM_POLICY, "X-Frame-Options": "SAMEORIGIN"}
        elif name.startswith(_DIAGRAM_SCRIPT):
            headers["Cross-Origin-Resource-Policy"] = "cross-origin"  # for a document without an origin
        return cls(body, zipped, MappingProxyType(headers))


class PageRoute(Route):
    """Every path that isn't part of the API: the page's, or not found for any method."""

    def __init__(self, page: "PageRoutes") -> None:
        super().__init__("/{path:path}", page.show)
        self.methods = None


class PageRoutes:
    """Serves files of the page, and the page itself for its own URLs."""

    def __init__(self, files: Mapping[str, Content], mount_path: str = "") -> None:
        files = _mounted(files, mount_path) if mount_path else files
        self._files = {name: _File.of(name, files) for name in files if not name.endswith(ZIPPED)}

    async def show(self, request: Request) -> Response:
        """Any method; / and everything that isn't an API route."""
        name: str = request.path_params.get("path", "") or INDEX
        if name not in self._files and _is_place(name):
            name = INDEX
        file = self._files.get(name)
        if request.method == "HEAD" and name == INDEX and file is None:
            return Response()  # clients ask so whether a server is there
        if file is None:
            raise _not_built() if name == INDEX else no_such_route(request.scope["path"])
        if request.method not in _METHODS:
            raise HTTPException(405, headers={"Allow": ", ".join(_METHODS)})
        if has_already(request, file.headers["ETag"]):
            return Response(status_code=304, headers=file.headers)
        if file.zipped is not None and "gzip" in request.headers.get("accept-encoding", ""):
            return await _response(request, file.zipped, {**file.headers, "Content-Encoding": "gzip"})
        return await _response(request, file.body, file.headers)


async def _response(request: Request, content: Content, headers: Mapping[str, str]) -> Response:
    if isinstance(content, Path):
        try:
            content = await asyncio.to_thread(content.read_bytes)
        except FileNotFoundError:  # another version was installed meanwhile
            raise no_such_route(request.scope["path"]) from None
    return Response(content, 200, headers)


def _mounted(files: Mapping[str, Content], mount_path: str) -> Mapping[str, Content]:
    """Return the files with documents that load scripts and styles from under this path."""
    mounted = dict(files)
    for name, body in files.items():
        if name.endswith(".html") and isinstance(body, bytes):
            mounted[name] = _OWN_ADDRESS.sub(rb"\1" + mount_path.encode() + b"/", body)
            mounted.pop(name + ZIPPED, None)
    return mounted


def _is_place(name: str) -> bool:
    """Whether the page itself handles the path: a session's, whose id may contain a dot."""
    kind, _, session_id = name.partition("/")
    return kind == "s" and session_id != "" and "/" not in session_id


def _not_built() -> Problem:
    return Problem(
        404,
        "This installation has no web page; the API works. To build the page, run scripts/setup",
        code="no_page",
    )
