"""The content of a message as clients write it: text, and attachments as blobs or inline.

Attachments over HTTP: bytes in, their name out, and back again.
"""

import asyncio
import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, TypeAlias, cast

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from holdfast.api.server import BlobStored
from holdfast.models.parts import IMAGE_TYPES
from holdfast.redaction import Redactor
from holdfast.runner.inbox import IncomingMessage
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, bad_request
from holdfast.server.routing import Endpoint
from holdfast.server.transport.bodies import converted, has_already, json_response, read_body
from holdfast.values import FilePart, ImagePart, Part, TextPart

Attached: TypeAlias = dict[str, bytes]  # what came inline, by the names that it will have as blobs
Raw: TypeAlias = dict[str, Any]

NAME_CHARS_MAX = 255
_TEXTS = frozenset({"text", "input_text", "output_text"})
_BLOB = re.compile(r"[0-9a-f]{64}")
_DATA_URL = re.compile(
    r"data:(?P<kind>[\w.+-]+/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64,(?P<data>.*)", re.DOTALL
)


def content_of(
    content: str | list[Raw] | None, *, param: str, attached: Attached
) -> tuple[str, tuple[Part, ...]]:
    """Text and attachments of a message; what came inline is put into `attached`."""
    if content is None or isinstance(content, str):
        return content or "", ()
    texts: list[str] = []
    parts: list[Part] = []
    for at, part in enumerate(content):
        where = f"{param}[{at}]"
        kind = part.get("type") or part.get("kind")
        if kind in _TEXTS and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif kind == "refusal" and isinstance(part.get("refusal"), str):
            texts.append(part["refusal"])
        elif "blob" in part:
            parts.append(_named_blob(part, where))
        elif kind in {"image_url", "input_image"}:
            parts.append(_image(part, where, attached))
        elif kind in {"file", "input_file"}:
            parts.append(_file(part, where, attached))
        else:
            raise bad_request(
                f"Invalid '{where}': a part must be text, an image or file as a data: URL, or the name of a "
                "blob from POST /api/blobs",
                param=where,
            )
    return "\n".join(texts), tuple(parts)


def parts_in(contents: Iterable[object]) -> int:
    """How many parts some messages hold, texts among them; a message that is no list is one."""
    return sum(max(1, len(cast("list[object]", one))) if isinstance(one, list) else 1 for one in contents)


async def redacted_bytes(data: bytes, redactor: Redactor) -> bytes:
    """A file without secrets; searching many megabytes takes a thread."""
    return await asyncio.to_thread(redactor.redact_bytes, data) if redactor.texts else data


async def without_secrets(message: IncomingMessage, redactor: Redactor) -> IncomingMessage:
    """The message with no secret in the files that came with it; a file that changes gets its new name."""
    renamed: dict[str, str] = {}
    attached: Attached = {}
    for name, data in message.attached.items():
        cleaned = await redacted_bytes(data, redactor)
        renamed[name] = name if cleaned == data else sha256(cleaned).hexdigest()
        attached[renamed[name]] = cleaned
    if all(old == new for old, new in renamed.items()):
        return message
    history = message.history and tuple(
        msgspec.structs.replace(one, parts=_renamed(one.parts, renamed)) for one in message.history
    )
    return replace(message, parts=_renamed(message.parts, renamed), history=history, attached=attached)


def _renamed(parts: Iterable[Part], names: Mapping[str, str]) -> tuple[Part, ...]:
    return tuple(
        part
        if isinstance(part, TextPart)
        else msgspec.structs.replace(part, blob=names.get(part.blob, part.blob))
        for part in parts
    )


async def keep_attached(
    deps: RouteDeps, parts: Iterable[Part], *, attached: Mapping[str, bytes], param: str = "parts"
) -> None:
    """Put what came inline on disk, before an event names it; raises a Problem if a named blob is unknown."""
    deps.uploads.add(sum(map(len, attached.values())))
    named = dict.fromkeys(part.blob for part in parts if not isinstance(part, TextPart))
    for name in named:  # each once, as an event counts it once
        if name in attached:
            continue
        if not _BLOB.fullmatch(name) or not await deps.store.keep_blob(name):
            raise Problem(
                400,
                f"Unknown blob {name[:80]!r}. Upload it with POST /api/blobs first",
                code="blob_not_found",
                param=param,
            )
    for data in attached.values():
        await deps.store.put_blob(data)


def _named_blob(part: Raw, where: str) -> Part:
    media_type = str(part.get("media_type", ""))
    kind = ImagePart if media_type.startswith("image/") else FilePart
    fields = {key: part[key] for key in ("blob", "media_type", "name") if key in part}
    return converted(
        {"kind": "image" if kind is ImagePart else "file", "name": "", **fields}, kind, param=where
    )


def _image(part: Raw, where: str, attached: Attached) -> ImagePart:
    given = part.get("image_url")
    url = cast("Raw", given).get("url") if isinstance(given, dict) else given
    media_type, blob = _inline(url, f"{where}.image_url", attached)
    if media_type not in IMAGE_TYPES:
        raise bad_request(
            f"Invalid '{where}.image_url': {media_type} isn't one of {', '.join(sorted(IMAGE_TYPES))}",
            param=f"{where}.image_url",
        )
    return ImagePart(blob=blob, media_type=media_type)


def _file(part: Raw, where: str, attached: Attached) -> FilePart | ImagePart:
    nested = part.get("file")
    file = cast("Raw", nested) if isinstance(nested, dict) else part
    media_type, blob = _inline(file.get("file_data"), f"{where}.file_data", attached)
    name = file.get("filename")
    name = name[:NAME_CHARS_MAX] if isinstance(name, str) else ""
    if media_type in IMAGE_TYPES:
        return ImagePart(blob=blob, media_type=media_type, name=name)
    return FilePart(blob=blob, media_type=media_type, name=name or "file")


def _inline(url: object, param: str, attached: Attached) -> tuple[str, str]:
    """Media type and blob name of a data: URL."""
    found = _DATA_URL.fullmatch(url) if isinstance(url, str) else None
    if found is None:
        raise bad_request(
            f"Invalid '{param}': it must be a base64 data: URL or, for an image, an https URL. File ids "
            "aren't supported: send the bytes, or upload them with POST /api/blobs",
            param=param,
            code="not_a_data_url",
        )
    try:
        data = base64.b64decode(found["data"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise bad_request(f"Invalid '{param}': {error}", param=param) from None
    if not data:
        raise bad_request(f"Invalid '{param}': it's empty", param=param)
    name = sha256(data).hexdigest()
    attached[name] = data
    return found["kind"].lower(), name


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
