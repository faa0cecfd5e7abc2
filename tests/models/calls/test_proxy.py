"""Model calls through a proxy: plain requests, tunnels, and proxies that do not let us through."""

import base64
import ssl
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast import events as e
from holdfast.chaos import ChaosServer, CloseOnReuse, Gate, Hang, Say, Script, Wait, closed_port
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.targets import Patience, RetryLimits, Target, Wire
from tables import for_each_row

from .calling import Line, Missing, Names, ended_by, line_to, nothing_left, request_of, target_of
from .certificates import own_certificate
from .proxying import Proxy, behind_tls, proxy

GOOD = [Say("hello")]
WIRE: Wire = "chat"
HOST = "models.example"  # nobody but the proxy knows where that is
LOGIN = "ann:p%40ss@"
BASIC = f"Basic {base64.b64encode(b'ann:p@ss').decode()}"
ONCE = RetryLimits(attempts_max=1, attempts_per_target_max=1, unreachable_s=0)
THRICE = RetryLimits(unreachable_s=0.25)  # at once, and once more after a quarter of a second


@dataclass(frozen=True, slots=True)
class Scene:
    """A line to a model server behind a proxy."""

    line: Line
    server: ChaosServer
    proxy: Proxy

    async def failure(self) -> str:
        """The text of the failure that a call ends with."""
        ended = await self.line.ask()
        assert isinstance(ended, NoAnswer)
        return ended.failure.text


def trusting(folder: Path) -> ssl.SSLContext:
    """A client's context that trusts the certificate of the folder alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(folder / "both.pem")
    return context


@asynccontextmanager
async def tunnelled(
    folder: Path, *scripts: Script, through: Proxy, login: str = "", **fields: Any
) -> AsyncGenerator[Scene]:
    """Over https: the proxy sees nothing but a name, a port and bytes."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ChaosServer(*scripts))
        port = await stack.enter_async_context(behind_tls(server.port, own_certificate(folder, HOST)))
        way = through.url.replace("//", f"//{login}")
        target = target_of(server, WIRE, base_url=f"https://{HOST}:{port}/v1", proxy=way, **fields)
        line = await stack.enter_async_context(line_to(target, resolver=Names({}), tls=trusting(folder)))
        yield Scene(line, server, through)


@asynccontextmanager
async def plain(*scripts: Script, through: Proxy, login: str = "") -> AsyncGenerator[Scene]:
    """Over http: the proxy reads each request."""
    async with ChaosServer(*scripts) as server:
        target = target_of(
            server,
            WIRE,
            base_url=f"http://{HOST}:{server.port}/v1",
            proxy=through.url.replace("//", f"//{login}"),
            retry=ONCE,
        )
        async with line_to(target, resolver=Names({})) as line:
            yield Scene(line, server, through)


async def test_a_plain_request_goes_to_the_proxy_with_its_whole_address() -> None:
    async with proxy() as it, plain(GOOD, through=it, login=LOGIN) as scene:
        assert isinstance(await scene.line.ask(), Answer)
        assert scene.line.told.text == "hello"
        assert it.lines == [f"POST http://{HOST}:{scene.server.port}/v1/chat/completions HTTP/1.1"]
        assert it.headers[0]["proxy-authorization"] == BASIC
        assert "proxy-authorization" not in scene.server.seen.request(1).headers


async def test_a_secure_request_goes_through_a_tunnel_that_is_used_again(tmp_path: Path) -> None:
    """P11: the proxy learns neither the key nor the request, and the endpoint no password of the proxy."""
    async with proxy() as it, tunnelled(tmp_path, GOOD, GOOD, through=it, login=LOGIN) as scene:
        for sink in (scene.line.told, scene.line.another_voice()):
            assert isinstance(await scene.line.ask(sink=sink), Answer)
            assert sink.text == "hello"
        (line,) = it.lines
        assert line.startswith(f"CONNECT {HOST}:")
        assert it.headers[0]["proxy-authorization"] == BASIC
        assert "authorization" not in it.headers[0]
        assert it.headers[0]["user-agent"] == "holdfast"
        seen = scene.server.seen.request(2)
        assert seen.is_on_used_connection
        assert "proxy-authorization" not in seen.headers
    await nothing_left()


@pytest.mark.parametrize(
    "opening",
    [
        "HTTP/1.0 200 Connection established\r\nproxy-agent: old",
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: keep-alive",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close",
    ],
)
async def test_a_tunnel_is_one_however_the_proxy_says_so(tmp_path: Path, opening: str) -> None:
    async with proxy() as it, tunnelled(tmp_path, GOOD, through=it) as scene:
        it.opening = opening
        assert isinstance(await scene.line.ask(), Answer)
        assert scene.line.told.failures == []


async def test_without_a_user_the_proxy_is_not_told_of_one(tmp_path: Path) -> None:
    async with proxy() as it, tunnelled(tmp_path, GOOD, through=it) as scene:
        assert isinstance(await scene.line.ask(), Answer)
        assert "proxy-authorization" not in it.headers[0]


async def test_a_proxy_may_itself_be_secure(tmp_path: Path) -> None:
    door = own_certificate(tmp_path, HOST)
    async with (
        proxy(tls=door) as it,
        ChaosServer(GOOD) as server,
        behind_tls(server.port, door) as port,
    ):
        target = target_of(
            server, WIRE, base_url=f"https://{HOST}:{port}/v1", proxy=f"https://{HOST}:{it.port}"
        )
        async with line_to(target, resolver=Names({HOST: it.port}), tls=trusting(tmp_path)) as line:
            assert isinstance(await line.ask(), Answer)
            assert it.lines == [f"CONNECT {HOST}:{port} HTTP/1.1"]


async def test_an_upload_that_the_proxy_does_not_take_is_cut(tmp_path: Path) -> None:
    """Scenario 4, P3."""
    async with (
        proxy(takes_bytes=50_000) as it,
        tunnelled(
            tmp_path,
            [Hang()],
            through=it,
            context_window=10_000_000,
            patience=Patience(upload_s=0.3, first_event_s=60, strict=True),
            retry=ONCE,
        ) as scene,
    ):
        ended = await scene.line.ask(request_of("x" * 8_000_000))
        assert isinstance(ended, NoAnswer)
        assert ended.failure.kind == "upload_stalled"
        assert scene.line.told.close_reasons == ["upload_kill"]
    await nothing_left()


async def test_a_model_that_says_nothing_through_a_tunnel_is_cut(tmp_path: Path) -> None:
    """S000-1, P3: the first event is waited for from when the request is sent, not from the tunnel on."""
    gate = Gate()
    async with (
        proxy() as it,
        tunnelled(
            tmp_path,
            [Wait(gate), *GOOD],
            through=it,
            patience=Patience(first_event_s=0.3, strict=True),
            retry=ONCE,
        ) as scene,
    ):
        assert "no first byte in 0.3 s (TTFB threshold: 0.3s)" in await scene.failure()
        assert scene.line.told.close_reasons == ["ttfb_kill"]
        await it.closed.passed()
        gate.open()


async def test_a_proxy_that_does_not_answer_is_cut_as_a_connection_that_never_comes(tmp_path: Path) -> None:
    """P3: a tunnel is not connected before it leads somewhere."""
    held = Gate()
    async with (
        proxy(held=held) as it,
        tunnelled(tmp_path, GOOD, through=it, patience=Patience(connect_s=0.2), retry=ONCE) as scene,
    ):
        assert f"no connection in 0.2 s through the proxy 127.0.0.1:{it.port};" in await scene.failure()
        assert scene.line.told.close_reasons == ["connect_kill"]
        await it.closed.passed()
        assert scene.server.seen.requests_seen == 0


async def test_a_stop_while_the_proxy_thinks_closes_the_connection(tmp_path: Path) -> None:
    """P5."""
    held = Gate()
    async with proxy(held=held) as it, tunnelled(tmp_path, GOOD, through=it) as scene:
        task = scene.line.start()
        await held.reached()
        await ended_by(task, "user_stop")
        await it.closed.passed()
        assert scene.line.told.kinds == ["cancelled"]
    await nothing_left()


async def test_a_stop_in_the_middle_of_an_answer_reaches_the_model(tmp_path: Path) -> None:
    """P5."""
    gate = Gate()
    async with proxy() as it, tunnelled(tmp_path, [Say("hel"), Wait(gate)], through=it) as scene:
        task = scene.line.start()
        await scene.line.told.until_text("hel")
        await ended_by(task, "user_stop")
        await it.closed.passed()
        assert await scene.server.seen.until_closed(1) in {"peer", "peer reset"}
    await nothing_left()


REFUSALS = [
    (
        "407 Proxy Authentication Required\r\nproxy-authenticate: Basic realm=corp",
        "requires a user name and a password (407 Proxy Authentication Required); set them in proxy of main",
        1,
    ),
    (
        "407 No\r\nproxy-authenticate: Negotiate\r\nproxy-authenticate: NTLM",
        "requires a user name and a password (407 No, it accepts only Negotiate or NTLM, and",
        1,
    ),
    ("403 Forbidden", "blocked the request (403 Forbidden); check proxy of main", 1),
    ("502 Bad Gateway", "couldn't reach the endpoint (502 Bad Gateway); check proxy of main", 3),
    ("429 Slow down", "couldn't reach the endpoint (429 Slow down); check proxy of main", 3),
    ("", "closed the connection; check proxy of main", 3),
]


@pytest.mark.parametrize(("answer", "text", "tries"), REFUSALS, ids=lambda value: str(value)[:7])
async def test_a_proxy_that_does_not_let_us_through_is_named_with_its_reason(
    tmp_path: Path, answer: str, text: str, tries: int
) -> None:
    """P9: what was refused for good is not asked again; what may pass is."""
    async with (
        proxy(*[answer] * tries) as it,
        tunnelled(tmp_path, GOOD, through=it, retry=THRICE) as scene,
    ):
        assert f"main: the proxy 127.0.0.1:{it.port} {text}" in await scene.failure()
        assert scene.line.told.kinds == ["connect_failed"] * min(tries, 2), "the first and the last"
        assert not it.answers
        assert scene.server.seen.requests_seen == 0
    await nothing_left()


async def test_a_plain_request_that_the_proxy_wants_a_password_for_says_the_same() -> None:
    """P9."""
    async with proxy("407 Who are you?") as it, plain(GOOD, through=it) as scene:
        text = f"main: the proxy 127.0.0.1:{it.port} requires a user name and a password (407); set"
        assert text in await scene.failure()
        assert scene.line.told.kinds == ["connect_failed"]


async def test_a_proxy_that_speaks_something_else_is_said_to(tmp_path: Path) -> None:
    async with proxy() as it, tunnelled(tmp_path, GOOD, through=it, retry=ONCE) as scene:
        it.answers.append(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")
        place = f"the proxy 127.0.0.1:{it.port}"
        assert f"main: {place} sent an invalid response" in await scene.failure()
        assert scene.line.told.kinds == ["connect_failed"]


@for_each_row("scheme", ["http", "https"])
async def test_a_proxy_that_is_not_there_is_named(scheme: str) -> None:
    """P9: not the endpoint, which nobody has tried to reach."""
    with closed_port() as port:
        target = Target(
            name="main",
            wire=WIRE,
            base_url=f"{scheme}://{HOST}/v1",
            model="m",
            proxy=f"http://127.0.0.1:{port}",
        )
        async with line_to(target, resolver=Names({})) as line:
            ended = await line.ask()
            assert isinstance(ended, NoAnswer)
            text = f"main: the proxy 127.0.0.1:{port} refused the connection; check proxy of main"
            assert text in ended.failure.text
            assert line.told.kinds == ["connect_failed"] * 2


async def test_a_proxy_whose_name_nobody_knows_is_named() -> None:
    """P9."""
    target = Target(
        name="main", wire=WIRE, base_url=f"https://{HOST}/v1", model="m", proxy="http://nowhere.invalid:3128"
    )
    async with line_to(target, resolver=Missing({})) as line:
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        assert "main: can't resolve the proxy nowhere.invalid:3128;" in ended.failure.text


async def test_a_proxy_that_shows_a_certificate_of_its_own_is_not_trusted(tmp_path: Path) -> None:
    """P9, P11: neither key nor request reaches whoever looks into the traffic."""
    async with proxy() as it, tunnelled(tmp_path, GOOD, through=it) as scene:
        line = scene.line
        async with line_to(*line.targets, resolver=Names({})) as strict:
            ended = await strict.ask()
            assert isinstance(ended, NoAnswer)
            assert strict.told.kinds == ["tls_untrusted"]
            assert f"(through the proxy 127.0.0.1:{it.port}) isn't trusted" in ended.failure.text
            assert "if the proxy inspects traffic" in ended.failure.text
            assert scene.server.seen.requests_seen == 0


async def test_after_a_proxy_that_refuses_another_target_answers(tmp_path: Path) -> None:
    """S000-9: and people are told who could not be reached."""
    async with proxy("403 Forbidden") as it, tunnelled(tmp_path, GOOD, through=it) as scene:
        async with ChaosServer([Say("from elsewhere")]) as other:
            scene.line.targets = (*scene.line.targets, target_of(other, WIRE, "second"))
            assert isinstance(await scene.line.ask(), Answer)
        (switched,) = scene.line.told.of(e.TargetSwitched)
        assert switched.why == "main couldn't be reached"


async def test_a_stale_tunnel_costs_no_attempt(tmp_path: Path) -> None:
    """P3: the call gets a tunnel of its own, and no proxy is told to close it at once."""
    first = [Say("one"), CloseOnReuse()]
    async with proxy() as it, tunnelled(tmp_path, first, GOOD, through=it) as scene:
        await scene.line.ask(sink=scene.line.another_voice())
        assert isinstance(await scene.line.ask(), Answer)
        assert scene.line.told.failures == []
        assert len(scene.line.told.of(e.AttemptStarted)) == 1
        assert [headers["connection"] for headers in it.headers] == ["keep-alive"] * 2
