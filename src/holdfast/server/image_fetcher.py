"""Fetches an image by its https address, under the rules of the web tool."""

import asyncio
import base64
from dataclasses import dataclass

import aiohttp
from msgspec import Struct
from typing_extensions import override
from yarl import URL

from holdfast.server.problems import Problem
from holdfast.tools.web.addresses import AddressRefused, PublicOnly, UrlRefused
from holdfast.tools.web.fetch import BODY_BYTES_MAX, Fetcher, Page

FETCHES_MAX = 8  # at a time, for all requests
FETCH_S = 30.0  # for all images of a request
ACCEPT = "image/webp, image/png, image/jpeg, image/gif"
_UNNAMED_TYPES = frozenset({"application/octet-stream", "binary/octet-stream"})
_OK = 200


@dataclass(frozen=True, slots=True)
class HttpsOnly(PublicOnly):
    """The URLs a client can have fetched: https at public addresses."""

    ports: frozenset[int] = frozenset({443})

    @override
    def insist_on_url(self, url: URL) -> None:
        if url.scheme != "https":
            raise UrlRefused("Only https URLs can be fetched.")
        PublicOnly.insist_on_url(self, url)


class FetchedImage(Struct, frozen=True):
    """The result of fetching a URL."""

    media_type: str
    data: str  # in base64


class ImageFetcher:
    """Fetches a few images at a time."""

    def __init__(self, fetcher: Fetcher | None = None) -> None:
        self._fetcher = fetcher or Fetcher(HttpsOnly(), accept=ACCEPT, follows_to_any_host=True)
        self._places = asyncio.Semaphore(FETCHES_MAX)

    async def fetch(self, url: str, where: str) -> FetchedImage | Problem:
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


def _image(page: Page, where: str) -> FetchedImage | Problem:
    if page.status != _OK:
        return _not_fetched(where, f"the server responded with status {page.status}")
    if page.cut:
        return _not_fetched(where, f"it's larger than {BODY_BYTES_MAX // 1024 // 1024} MiB")
    media_type = _type_of(page.body)
    if not media_type:
        return _not_fetched(where, "it isn't a PNG, JPEG, GIF or WebP image")
    return FetchedImage(media_type, base64.b64encode(page.body).decode())


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
