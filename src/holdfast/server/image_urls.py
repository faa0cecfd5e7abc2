"""Images that a client names by an https address: fetched under the rules of the web tool, and then inline.

From there on, such an image is like one that came with the request: its bytes are on disk before a model is
called, so a resumed run sees the same image.
"""

import asyncio
import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import aiohttp
import msgspec
from msgspec import Struct
from typing_extensions import override
from yarl import URL

from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import json_value
from holdfast.tools.web.addresses import AddressRefused, PublicOnly, UrlRefused
from holdfast.tools.web.fetch import BODY_BYTES_MAX, Fetcher, Page

IMAGES_MAX = 20  # different addresses in one request
FETCHES_MAX = 8  # at a time, for all requests
FETCH_S = 30.0  # for all images of a request
ACCEPT = "image/webp, image/png, image/jpeg, image/gif"
_UNNAMED_TYPES = frozenset({"application/octet-stream", "binary/octet-stream"})
_NAMES_URL = re.compile(rb'"(?:image_)?url"\s*:\s*"https?:', re.IGNORECASE)
_OK = 200
_OPENAI_PARTS = frozenset({"image_url", "input_image"})

Raw: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class HttpsOnly(PublicOnly):
    """The URLs a client can have fetched: https at public addresses."""

    ports: frozenset[int] = frozenset({443})

    @override
    def insist_on_url(self, url: URL) -> None:
        if url.scheme != "https":
            raise UrlRefused("Only https URLs can be fetched.")
        PublicOnly.insist_on_url(self, url)


class _Image(Struct, frozen=True):
    """The result of fetching a URL."""

    media_type: str
    data: str  # in base64


class _NamedImage(Struct, frozen=True):
    """A part of a message that names an image by its address."""

    part: Raw
    url: str
    where: str

    def put_inline(self, image: _Image) -> None:
        """Write the bytes in place of the address."""
        if self.part.get("type") == "image":
            self.part["source"] = {"type": "base64", "media_type": image.media_type, "data": image.data}
            return
        url = f"data:{image.media_type};base64,{image.data}"
        given = self.part["image_url"]
        self.part["image_url"] = {**cast("Raw", given), "url": url} if isinstance(given, dict) else url


class ImageUrls:
    """Fetches what clients name, a few at a time."""

    def __init__(self, fetcher: Fetcher | None = None) -> None:
        self._fetcher = fetcher or Fetcher(HttpsOnly(), accept=ACCEPT, follows_to_any_host=True)
        self._places = asyncio.Semaphore(FETCHES_MAX)

    async def put_inline(self, value: object, *, param: str, bytes_max: int) -> None:
        """Replace the addresses in messages by the images; raises a Problem that names the part."""
        named = list(_named_images(value, param))
        if not named:
            return
        where = {one.url: one.where for one in reversed(named)}
        if len(where) > IMAGES_MAX:
            text = f"'{param}' has more than {IMAGES_MAX} image URLs. Send some inline"
            raise bad_request(text, param=param, code="too_many_parts")
        async with asyncio.TaskGroup() as group:
            tasks = {url: group.create_task(self._fetched(url, where[url])) for url in where}
        images: dict[str, _Image] = {}
        for url, task in tasks.items():
            fetched = task.result()
            if isinstance(fetched, Problem):
                raise fetched
            images[url] = fetched
        if sum(len(image.data) for image in images.values()) > bytes_max:
            text = f"The images in '{param}' have more than {bytes_max} bytes in total"
            raise Problem(413, text, code="body_too_large", param=param)
        for one in named:
            one.put_inline(images[one.url])

    async def put_inline_in_body(self, body: bytes, *, param: str, bytes_max: int) -> bytes:
        """The same for the messages of a whole body; its bytes stay as they are if it names no image."""
        if not _NAMES_URL.search(body):
            return body
        fields = await asyncio.to_thread(json_value, body, dict[str, Any])
        await self.put_inline(fields.get(param), param=param, bytes_max=bytes_max)
        return await asyncio.to_thread(msgspec.json.encode, fields)

    async def _fetched(self, url: str, where: str) -> _Image | Problem:
        """Fetch the image. A failure is a value, so that concurrent fetches are independent."""
        try:
            async with asyncio.timeout(FETCH_S), self._places:
                page = await self._fetcher.fetch(url, wanted=_is_image)
        except TimeoutError:
            return _not_fetched(where, f"it took longer than {FETCH_S:g} s")
        except AddressRefused:
            return _not_fetched(where, "its address isn't public")  # which one it is stays here
        except UrlRefused as refused:
            return _not_fetched(where, str(refused).rstrip("."))
        except (aiohttp.ClientError, OSError) as error:
            return _not_fetched(where, f"the connection failed ({type(error).__name__})")
        return await asyncio.to_thread(_image, page, where)


def _image(page: Page, where: str) -> _Image | Problem:
    if page.status != _OK:
        return _not_fetched(where, f"the server responded with status {page.status}")
    if page.cut:
        return _not_fetched(where, f"it's larger than {BODY_BYTES_MAX // 1024 // 1024} MiB")
    media_type = _type_of(page.body)
    if not media_type:
        return _not_fetched(where, "it isn't a PNG, JPEG, GIF or WebP image")
    return _Image(media_type, base64.b64encode(page.body).decode())


def _not_fetched(where: str, why: str) -> Problem:
    text = f"Can't fetch the image of '{where}': {why}. Send it inline as a data: URL instead"
    return Problem(400, text, code="image_not_fetched", param=where)


def _is_image(media_type: str) -> bool:
    return media_type.startswith("image/") or media_type in _UNNAMED_TYPES


def _type_of(data: bytes) -> str:
    """The type by the first bytes: what a server says about a file may be wrong."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""


def _named_images(value: object, where: str) -> Iterator[_NamedImage]:
    """The parts of messages that name an image by its address, in any of the protocols."""
    if isinstance(value, list):
        for at, one in enumerate(cast("list[object]", value)):
            yield from _named_images(one, f"{where}[{at}]")
    elif isinstance(value, dict):
        part = cast("Raw", value)
        if url := _url_in(part):
            field = "source" if part.get("type") == "image" else "image_url"
            yield _NamedImage(part, url, f"{where}.{field}")
            return
        for name in ("content", "output"):
            if isinstance(part.get(name), list):
                yield from _named_images(part[name], f"{where}.{name}")


def _url_in(part: Raw) -> str:
    kind = part.get("type")
    if kind == "image":
        holder = part.get("source")
        given = cast("Raw", holder).get("url") if isinstance(holder, dict) else None
    elif kind in _OPENAI_PARTS:
        holder = part.get("image_url")
        given = cast("Raw", holder).get("url") if isinstance(holder, dict) else holder
    else:
        return ""
    return given if isinstance(given, str) and given[:8].lower().startswith(("http://", "https://")) else ""
