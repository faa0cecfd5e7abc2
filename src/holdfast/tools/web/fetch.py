"""Fetches one URL: checked at each redirect, limited in time and size, also after decompression."""

import re
import zlib
from collections.abc import Callable

import aiohttp
from aiohttp.abc import AbstractResolver
from msgspec import Struct
from yarl import URL

from holdfast.tools.web.addresses import AddressPolicy, CheckedResolver, UrlRefused

BODY_BYTES_MAX = 5 * 1024 * 1024
REDIRECTS_MAX = 5
CONNECT_S = 10.0
_CHUNK_BYTES = 64 * 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ENCODINGS = {"": None, "identity": None, "gzip": 31, "x-gzip": 31, "deflate": 15}
TEXT_FIRST = "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.1"
_HEADERS = {
    "Accept-Encoding": "gzip, deflate",
    "User-Agent": "holdfast",
}
# Only plain character sets: some of Python's codecs take quadratic time or are none.
_CHARSET = re.compile(
    r"utf-?(8|16|32)(-?[bl]e)?|us-ascii|ascii|iso-?8859-?\d+|latin-?1|windows-?125\d|cp125\d|"
    r"shift_?jis|euc-?(jp|kr)|gb(2312|k|18030)|big5|koi8-?[ru]",
    re.IGNORECASE,
)


class Page(Struct, frozen=True, kw_only=True):
    """The result of fetching a URL."""

    url: str
    status: int
    media_type: str
    charset: str
    body: bytes
    cut: bool

    def text(self) -> str:
        """The body as text."""
        charset = self.charset if _CHARSET.fullmatch(self.charset) else "utf-8"
        try:
            return self.body.decode(charset, "replace")
        except LookupError:
            return self.body.decode("utf-8", "replace")  # it names one that there is not, as iso-8859-99


class Fetcher:
    """Fetches URLs that a policy allows; every fetch has its own connection and no cookies.

    A redirect to another host is refused, because a person may have approved one host only, unless it
    `follows_to_any_host` that the policy allows.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        resolver: Callable[[], AbstractResolver] | None = None,
        accept: str = TEXT_FIRST,
        follows_to_any_host: bool = False,
    ) -> None:
        self._policy = policy
        self._resolver = resolver or aiohttp.AsyncResolver
        self._headers = {"Accept": accept, **_HEADERS}
        self._follows_to_any_host = follows_to_any_host

    async def fetch(self, text: str, *, wanted: Callable[[str], bool]) -> Page:
        """The page at the end of the redirects; raises UrlRefused or aiohttp.ClientError.

        `wanted` says whether a media type is worth its bytes; the body of any other is not read.
        """
        url = _url(text)
        resolver = CheckedResolver(self._resolver(), self._policy)
        connector = aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, force_close=True)
        # Without the environment's proxies: a proxy would connect where we did not check.
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
        )
        try:
            async with session:
                self._policy.insist_on_url(url)
                for _ in range(REDIRECTS_MAX + 1):
                    answer = await _one(session, url, wanted=wanted)
                    if isinstance(answer, Page):
                        return answer
                    url, before = answer, url
                    self._policy.insist_on_url(url)
                    if not self._follows_to_any_host:
                        _insist_on_the_host(url, before)
        finally:
            await resolver.close()
        raise UrlRefused(f"It redirects more than {REDIRECTS_MAX} times.")


async def _one(session: aiohttp.ClientSession, url: URL, *, wanted: Callable[[str], bool]) -> Page | URL:
    async with session.get(url, allow_redirects=False) as response:
        target = response.headers.get("Location", "")
        if response.status in _REDIRECTS and target:
            return url.join(_url(target))
        media_type = response.content_type
        body, cut = await _body(response) if wanted(media_type) else (b"", False)
        return Page(
            url=str(url),
            status=response.status,
            media_type=media_type,
            charset=response.charset or "utf-8",
            body=body,
            cut=cut,
        )


async def _body(response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
    encoding = response.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in _ENCODINGS:
        raise UrlRefused(f"The response is compressed as {encoding!r}, which wasn't requested.")
    bits = _ENCODINGS[encoding]
    inflate = None if bits is None else zlib.decompressobj(bits)
    body = bytearray()
    any_data = False
    async for data in response.content.iter_chunked(_CHUNK_BYTES):
        any_data = True
        room = BODY_BYTES_MAX - len(body) + 1
        try:
            # Never more than there is room for, however much a few bytes unfold to.
            body += data[:room] if inflate is None else inflate.decompress(data, room)
        except zlib.error as error:
            raise UrlRefused(f"The response's compression is broken: {error}.") from error
        if len(body) > BODY_BYTES_MAX:
            return bytes(body[:BODY_BYTES_MAX]), True
    if inflate is not None and any_data and not inflate.eof:
        raise UrlRefused("The response's compression is broken: it ends too early.")
    return bytes(body), False


def _insist_on_the_host(url: URL, before: URL) -> None:
    """Refuse a redirect to another host: only one host was approved, and the URL may carry data."""
    now, then = ((each.raw_host or "").lower().rstrip(".").removeprefix("www.") for each in (url, before))
    if now != then:
        raise UrlRefused(f"It redirects to another host: {url}. To follow, fetch that URL.")


def _url(text: str) -> URL:
    try:
        return URL(text.strip())
    except ValueError as error:
        raise UrlRefused(f"Invalid URL: {error}.") from error
