"""Fetching: public addresses only, by any spelling, name, redirect or change of mind; bounded in all ways."""

import asyncio
import gzip
import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass, field

from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from fakes.cancel import CancelAt
from fixed_pages import fixed_pages, page
from holdfast.interfaces.tool import ToolResult
from holdfast.policy.public_addresses import IPAddress, is_public
from holdfast.tools.web.addresses import PublicOnly, UrlRefused, insist_on_form
from holdfast.tools.web.fetch import BODY_BYTES_MAX, Fetcher
from holdfast.tools.web.readable import readable
from holdfast.tools.web.tool import FetchUrl
from tools.calls import ENVIRONMENT, Call, descriptors, until
from tools.loops import ON_BOTH_LOOPS


@dataclass
class Names(AbstractResolver):
    """A resolver that says what it is told to, one answer after the other, the last for ever."""

    answers: list[list[str]]
    asked: list[str] = field(default_factory=list[str])

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        del family
        self.asked.append(host)
        addresses = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [_found(host, address, port) for address in addresses]

    async def close(self) -> None:
        return


def _found(host: str, address: str, port: int) -> ResolveResult:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)


@dataclass
class Only:
    """A policy for servers of the tests: some addresses, any port."""

    addresses: frozenset[str] = frozenset({"127.0.0.1"})

    def insist_on_url(self, url: URL) -> None:
        insist_on_form(url)
        host = url.raw_host or ""
        if host[0].isdecimal() and host not in self.addresses:
            raise UrlRefused(f"{host} isn't public")

    def allows(self, address: IPAddress) -> bool:
        return str(address) in self.addresses


def redirect(target: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode()


def tool(names: Names | None = None, policy: Only | PublicOnly | None = None) -> FetchUrl:
    given = names or Names([["127.0.0.1"]])
    return FetchUrl(Fetcher(policy or Only(), resolver=lambda: given), environment=ENVIRONMENT)


async def fetch(call: Call, url: str, made: FetchUrl | None = None) -> ToolResult:
    return await (made or tool()).run({"url": url}, call)


NOT_PUBLIC = [
    str(ipaddress.IPv4Address(0)),
    "127.0.0.1", "127.255.255.254", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255",
    "192.168.1.1", "169.254.169.254", "169.254.0.1", "100.64.0.1", "100.127.255.255", "192.0.0.1",
    "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255",
    "240.0.0.1", "255.255.255.255", "168.63.129.16", "::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8",
    "::127.0.0.1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1",
    "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "2002:7f00:1::", "2001::1", "2001:db8::1",
    "100::1", "100:0:0:1::1", "4000::1", "3fff::1", "3fff:fff:ffff::1", "5f00::1", "2001:20::1",
    "2620:4f:8000::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "192.88.99.1", "192.0.0.170",
    "192.31.196.1", "192.52.193.1", "192.175.48.1",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e"]


def test_only_an_address_that_everybody_reaches_is_public() -> None:
    addresses = [*NOT_PUBLIC, *PUBLIC]
    assert [text for text in addresses if is_public(ipaddress.ip_address(text))] == PUBLIC


LEADING_INSIDE = [
    *(f"http://[{text}]/" if ":" in text else f"http://{text}/" for text in NOT_PUBLIC),
    "http://2130706433/", "http://0x7f000001/", "http://017700000001/", "http://127.1/", "http://0/",
    "http://0x7f.1/", "http://127.0.0.1./", "http://3232235777/", "http://%31%32%37.0.0.1/",
    "http://localhost/", "http://LOCALHOST/", "http://localhost./", "http://x.localhost/",
    "http://router.lan/", "http://exa%6dple.com/",
    "http://metadata.google.internal/", "http://intranet/", "http://printer.local/", "http://①②⑦.0.0.1/",
    "file:///etc/passwd", "ftp://example.com/", "gopher://example.com/", "data:text/plain,x",
    "//example.com/", "javascript:alert(1)", "example.com", "http://", "http:///x", "",
    "http://user:pass@example.com/", "http://user@example.com/", "http://example.com@127.0.0.1/",
    "http://example.com:22/", "http://example.com:8080/", "https://example.com:6379/",
    "http://example.com:0/", "http://example.com:99999/", "http://[::1/",
]  # fmt: skip


async def test_by_default_a_url_that_leads_inside_is_refused_before_anything_is_asked(call: Call) -> None:
    names = Names([["127.0.0.1"]])
    made = tool(names, PublicOnly())
    results = {url: await fetch(call, url or " ", made) for url in LEADING_INSIDE}
    assert [url for url, result in results.items() if result.ok or not result.text] == []
    assert names.asked == []


async def test_by_default_a_name_that_leads_inside_is_refused(call: Call) -> None:
    for address in NOT_PUBLIC:
        names = Names([[address]])
        result = await fetch(call, "http://innocent.example.com/", tool(names, PublicOnly()))
        assert result.text == f"innocent.example.com resolves to {address}, which isn't public."
        assert names.asked == ["innocent.example.com"]


@ON_BOTH_LOOPS
async def test_the_connection_goes_to_the_address_that_was_checked(call: Call) -> None:
    async with fixed_pages({"/": page("right")}) as server:
        names = Names([["127.0.0.2", "127.0.0.1", "::1"], ["127.0.0.2"]])
        made = tool(names)
        result = await fetch(call, f"http://rebinding.example:{server.port}/", made)
        assert result.text.endswith("\nright")
        assert names.asked == ["rebinding.example"]
        again = await fetch(call, f"http://rebinding.example:{server.port}/", made)
        assert again.text == "rebinding.example resolves to 127.0.0.2, which isn't public."
        assert len(server.asked) == 1


async def test_a_redirect_is_checked_like_any_url(call: Call) -> None:
    targets = (
        "http://127.0.0.2:PORT/",
        "http://169.254.169.254/latest/meta-data/",
        "//169.254.169.254/",
        "file:///etc/passwd",
        "http://user:secret@127.0.0.1:PORT/end",
        "gopher://127.0.0.1/",
        "http://[::1/",
    )
    pages = {f"/{number}": redirect(target) for number, target in enumerate(targets)}
    async with fixed_pages({**pages, "/end": page("end")}) as server:
        for number, target in enumerate(targets):
            result = await fetch(call, f"http://127.0.0.1:{server.port}/{number}")
            assert not result.ok, target
            assert len(server.asked) == number + 1, target


async def test_a_redirect_to_a_name_that_leads_inside_is_refused(call: Call) -> None:
    async with fixed_pages({"/": redirect("http://evil.example:PORT/end"), "/end": page("end")}) as server:
        names = Names([["127.0.0.1"], ["127.0.0.2"]])
        result = await fetch(call, f"http://www.evil.example:{server.port}/", tool(names))
        assert result.text == "evil.example resolves to 127.0.0.2, which isn't public."
        assert len(server.asked) == 1


async def test_a_redirect_to_another_host_than_the_allowed_one_is_told_and_not_followed(call: Call) -> None:
    """P8: the person allowed good.example, and what an open redirect makes of that is another action."""
    target = "http://other.example:PORT/end?key=1"
    async with fixed_pages({"/": redirect(target), "/end": page("end")}) as server:
        result = await fetch(call, f"http://good.example:{server.port}/")
        went = target.replace("PORT", str(server.port))
        assert result.text == f"It redirects to another host: {went}. To follow, fetch that URL."
        assert not result.ok
        assert len(server.asked) == 1
        near = await fetch(call, f"http://www.other.example:{server.port}/end")
        assert near.text.endswith("\nend")


async def test_redirects_are_followed_but_not_for_ever(call: Call) -> None:
    pages = {f"/{number}": redirect(f"{number + 1}") for number in range(5)} | {"/5": page("the end")}
    async with fixed_pages({**pages, "/loop": redirect("/loop")}) as server:
        assert (await fetch(call, f"http://127.0.0.1:{server.port}/0")).text.endswith("\nthe end")
        loop = await fetch(call, f"http://127.0.0.1:{server.port}/loop")
        assert loop.text == "It redirects more than 5 times."


async def test_nothing_of_ours_travels_along(call: Call) -> None:
    pages = {"/": redirect("/end").replace(b"Location", b"Set-Cookie: a=b\r\nLocation"), "/end": page("end")}
    async with fixed_pages(pages) as server:
        await fetch(call, f"http://127.0.0.1:{server.port}/")
        assert "Cookie" not in server.heads[1]
        assert "Referer" not in server.heads[1]


async def test_a_body_is_bounded_also_when_it_unfolds(call: Call) -> None:
    bomb = gzip.compress(bytes(20 * BODY_BYTES_MAX), compresslevel=1)
    large = b"x" * (BODY_BYTES_MAX + 100_000)
    pages = {
        "/bomb": page(bomb, "text/plain", "Content-Encoding: gzip"),
        "/large": page(large),
        "/small": page(gzip.compress(b"folded"), "text/plain", "Content-Encoding: gzip"),
        "/odd": page(b"x", "text/plain", "Content-Encoding: br"),
        "/broken": page(b"x", "text/plain", "Content-Encoding: gzip"),
    }
    async with fixed_pages(pages) as server:
        base = f"http://127.0.0.1:{server.port}"
        for path in ("/bomb", "/large"):
            result = await fetch(call, base + path)
            assert f"only the first {BODY_BYTES_MAX:,} bytes were fetched" in result.text
            assert len(result.text) < 41_000
            assert len(await call.blobs.blob(result.blob) or b"") == BODY_BYTES_MAX
        assert (await fetch(call, base + "/small")).text.endswith("\nfolded")
        assert "which wasn't requested" in (await fetch(call, base + "/odd")).text
        assert "compression is broken" in (await fetch(call, base + "/broken")).text


async def test_text_is_shown_html_made_readable_and_the_rest_refused(call: Call) -> None:
    pages = {
        "/html": page("<title>T</title><p>Hello <a href='/x'>link</a>", "text/html; charset=utf-8"),
        "/json": page('{"a": 1}', "application/json"),
        "/latin": page("caf\xe9".encode("latin-1"), "text/plain; charset=iso-8859-1"),
        "/no-such": page("caf\xe9".encode(), "text/plain; charset=iso-8859-99"),
        "/idna": page(b"xn--" * 100_000, "text/plain; charset=idna"),
        "/pdf": page(b"%PDF", "application/pdf"),
        "/none": b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\ngone",
        "/odd": b"no http at all\r\n\r\n",
    }
    async with fixed_pages(pages) as server:
        base = f"http://127.0.0.1:{server.port}"
        html = await fetch(call, f"{base}/html")
        assert html.text == f"[{base}/html: status 200, text/html]\nT\n\nHello link <{base}/x>"
        raw = await tool().run({"url": f"{base}/html", "raw": True}, call)
        assert "<title>" in raw.text
        assert (await fetch(call, f"{base}/json")).text.endswith('{"a": 1}')
        for path in ("/latin", "/no-such"):
            assert (await fetch(call, base + path)).text.endswith("café")
        assert (await fetch(call, f"{base}/idna")).ok
        pdf = await fetch(call, f"{base}/pdf")
        assert not pdf.ok
        assert "is application/pdf, not text" in pdf.text
        none = await fetch(call, f"{base}/none")
        assert (none.ok, none.text.endswith("gone")) == (False, True)
        assert "Couldn't fetch" in (await fetch(call, f"{base}/odd")).text
    assert "Couldn't fetch" in (await fetch(call, f"{base}/json")).text


@ON_BOTH_LOOPS
async def test_cancelled_at_any_await_nothing_is_left(call: Call) -> None:
    async with fixed_pages({"/": redirect("/end"), "/end": page("<p>text", "text/html")}) as server:
        url = f"http://name.example:{server.port}/"
        assert (await fetch(call, url)).ok
        before = await asyncio.to_thread(descriptors)
        tasks = asyncio.all_tasks()
        nth = 0
        while True:
            nth += 1
            attempt = CancelAt(fetch(call, url), nth)
            task = await attempt.in_own_task()
            assert await call.left() == []
            await until(lambda: len(descriptors()) <= len(before))
            await _gone(asyncio.all_tasks() - tasks)
            if not attempt.reached:
                assert task.result().ok
                break
        assert nth > 5


async def _gone(tasks: Iterable[asyncio.Task[object]]) -> None:
    await asyncio.gather(*tasks, return_exceptions=True)


def test_html_becomes_text() -> None:
    texts = [
        ("<p>one</p><p>two</p>", "one\n\ntwo"),
        ("a<br>b<hr>c", "a\nb\nc"),
        ("<h2>Head</h2>text", "## Head\ntext"),
        ("<ul><li>x<li>y</ul>", "- x\n- y"),
        ("<script>alert('<p>x')</script><style>p{}</style>seen<noscript>no</noscript>", "seen"),
        ("<head><title>T</title><script>x", "T"),
        ("<head><meta charset=x><body>never closed head", "never closed head"),
        ("&lt;b&gt; &amp; &#8364;", "<b> & €"),
        (
            "<a href='../x?a=1&amp;b'>go</a> <a href='#top'>up</a> <a href='javascript:x'>js</a>",
            "go <http://h/x?a=1&b> up js",
        ),
        ("<pre>  keep\n   this</pre>", "keep\n   this"),
        ("<img alt='a cat' src=x>", "[image: a cat]"),
        ("<a href='http://[bad'>text</a>", "text"),
        ("</p></div></a></script>stray", "stray"),
        ("", ""),
    ]
    assert [(html, readable(html, "http://h/d/p")) for html, _ in texts] == texts
