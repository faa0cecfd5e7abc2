"""Images that a client names by an https address: fetched under the rules of the web tool, and then inline.

From there on, such an image is like one that came with the request: its bytes are on disk before a model is
called, so a resumed run sees the same image.
"""

import asyncio
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import json_value

if TYPE_CHECKING:
    from holdfast.server.image_fetcher import FetchedImage, ImageFetcher

IMAGES_MAX = 20  # different addresses in one request
_NAMES_URL = re.compile(rb'"(?:image_)?url"\s*:\s*"https?:', re.IGNORECASE)
_OPENAI_PARTS = frozenset({"image_url", "input_image"})

Raw: TypeAlias = dict[str, Any]


class _NamedImage(Struct, frozen=True):
    """A part of a message that names an image by its address."""

    part: Raw
    url: str
    where: str

    def put_inline(self, image: "FetchedImage") -> None:
        """Write the bytes in place of the address."""
        if self.part.get("type") == "image":
            self.part["source"] = {"type": "base64", "media_type": image.media_type, "data": image.data}
            return
        url = f"data:{image.media_type};base64,{image.data}"
        given = self.part["image_url"]
        self.part["image_url"] = {**cast("Raw", given), "url": url} if isinstance(given, dict) else url


class ImageUrls:
    """Puts the images that clients name into their requests."""

    def __init__(self, fetcher: "ImageFetcher | None" = None) -> None:
        self._fetcher = fetcher

    async def put_inline(self, value: object, *, param: str, bytes_max: int) -> None:
        """Replace the addresses in messages by the images; raises a Problem that names the part."""
        named = list(_named_images(value, param))
        if not named:
            return
        where = {one.url: one.where for one in reversed(named)}
        if len(where) > IMAGES_MAX:
            text = f"'{param}' has more than {IMAGES_MAX} image URLs. Send some inline"
            raise bad_request(text, param=param, code="too_many_parts")
        if self._fetcher is None:
            from holdfast.server.image_fetcher import ImageFetcher

            self._fetcher = ImageFetcher()
        async with asyncio.TaskGroup() as group:
            tasks = {url: group.create_task(self._fetcher.fetch(url, where[url])) for url in where}
        images: dict[str, FetchedImage] = {}
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
