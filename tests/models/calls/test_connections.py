"""Connections: kept, found stale, refused, never made; and names that do not resolve."""

import asyncio
import socket
from typing import cast

import aiohttp

from holdfast import events as e
from holdfast.chaos import (
    ChaosServer,
    CloseOnReuse,
    Drop,
    Gate,
    Hang,
    HangUp,
    Say,
    Status,
    Wait,
    closed_port,
    silent_port,
)
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.models.http import KEPT_ALIVE_MAX
from holdfast.targets import Patience, RetryLimits, Target, Wire
from side_by_side import on_each_wire
from tables import for_each_row

from .calling import Missing, Names, line_of, line_to, target_of

GOOD = [Say("hello")]
WIRE: Wire = "chat"
BRIEFLY = RetryLimits(unreachable_s=0.2)


def on_port(port: int, **fields: object) -> Target:
    return Target(name="main", wire=WIRE, base_url=f"http://127.0.0.1:{port}/v1", model="m", **fields)  # pyright: ignore[reportArgumentType]


@on_each_wire
async def test_a_connection_is_used_again(wire: Wire) -> None:
    async with line_of(wire, GOOD, GOOD, GOOD) as (line, server):
        for _ in range(3):
            assert isinstance(await line.ask(sink=line.another_voice()), Answer)
        assert server.seen.connections_seen == 1


@on_each_wire
async def test_a_stale_connection_costs_no_attempt(wire: Wire) -> None:
    """P3: the peer had closed it before a byte of an answer, so nobody has seen the request."""
    async with line_of(wire, [Say("one"), CloseOnReuse()], GOOD) as (line, server):
        await line.ask(sink=line.another_voice())
        assert isinstance(await line.ask(), Answer)
        assert line.told.failures == []
        assert len(line.told.of(e.AttemptStarted)) == 1
        assert server.seen.connections_seen == 2
        assert line.clock.slept_s == []


async def test_many_stale_connections_cost_no_attempt_either() -> None:
    """P3: the second try has a connection of its own, so that it cannot be stale."""
    gates = [Gate() for _ in range(5)]
    first = [[Wait(gate), Say("one"), CloseOnReuse()] for gate in gates]
    async with line_of(WIRE, *first, GOOD) as (line, server):
        tasks = [line.start(sink=line.another_voice()) for _ in gates]
        await server.seen.until_connections(5)
        for gate in gates:
            gate.open()
        await asyncio.gather(*tasks)
        assert isinstance(await line.ask(), Answer)
        assert line.told.failures == []


async def test_a_kept_connection_that_breaks_after_a_while_is_a_failed_attempt() -> None:
    """S003-2: whoever held the request for so long has seen it."""
    async with (
        ChaosServer([Say("one")], [Drop()], [Say("two")]) as server,
        line_to(target_of(server, WIRE), stale_s=0.0) as line,
    ):
        await line.ask()
        sink = line.another_voice()
        assert isinstance(await line.ask(sink=sink), Answer)
        assert sink.kinds == ["dropped"]
        assert server.seen.requests_seen == 3


async def test_cookies_of_an_answer_do_not_come_back() -> None:
    """P11: what a gateway wants to know of one call is nothing that others tell it."""
    given = Status(500, {"set-cookie": "who=you; Path=/"})
    async with ChaosServer([given], [Say("hello")]) as server:
        target = Target(name="main", wire=WIRE, base_url="http://api.example.com/v1", model="m")
        async with line_to(target, resolver=Names({"api.example.com": server.port})) as line:
            assert isinstance(await line.ask(), Answer)
            assert [request.headers.get("cookie") for request in server.seen.requests] == [None, None]


@for_each_row("cut", [Drop(), HangUp()])
async def test_a_fresh_connection_that_breaks_at_once_is_a_failed_attempt(cut: Drop | HangUp) -> None:
    """S003-2."""
    async with line_of(WIRE, [cut], GOOD) as (line, _):
        assert isinstance(await line.ask(), Answer)
        assert line.told.kinds == ["dropped"]


async def test_more_calls_than_connections_are_kept_all_have_one() -> None:
    """P10: no limit of the client makes a call wait, and no crowd of idle connections is left behind."""
    gate = Gate()
    count = KEPT_ALIVE_MAX + 6
    async with line_of(WIRE, *([[Wait(gate), Say("hello")]] * count)) as (line, server):
        tasks = [line.start(sink=line.another_voice()) for _ in range(count)]
        await gate.reached(count)
        gate.open()
        assert all(isinstance(ended, Answer) for ended in await asyncio.gather(*tasks))
        assert server.seen.connections_seen == count
        await server.seen.until(
            lambda: sum(seen.closed_s is None for seen in server.seen.connections) == KEPT_ALIVE_MAX
        )


async def test_a_call_that_fails_late_leaves_the_connections_of_others_alone() -> None:
    """P10: at the end of a stream its connection goes back, and someone else may have it already."""
    gate = Gate()
    async with line_of(WIRE, [Say("one")], [Wait(gate), Say("two")]) as (line, server):
        first, second = line.told, line.another_voice()

        def fill(event: e.Event) -> None:
            first.full = first.full or isinstance(event, e.TextDelta)

        first.on_event = fill
        waiting = line.start(sink=first)
        await first.made_room.reached()
        await server.seen.until_ended(1)
        other = line.start(sink=second)
        await gate.reached()
        assert server.seen.request(2).connection is server.seen.request(1).connection
        waiting.cancel()
        await asyncio.wait([waiting])
        gate.open()
        assert isinstance(await other, Answer)
        assert second.failures == []


@on_each_wire
async def test_a_refused_connection_is_tried_again_at_once_and_then_at_longer_and_longer_intervals(
    wire: Wire,
) -> None:
    """S003-2: for ten seconds where nobody ever answered, and the log tells of the first and the last try."""
    with closed_port() as port:
        async with line_to(on_port(port)) as line:
            line.targets = (Target(name="main", wire=wire, base_url=f"http://127.0.0.1:{port}", model="m"),)
            ended = await line.ask()
            assert isinstance(ended, NoAnswer)
            assert line.told.kinds == ["connect_failed"] * 2
            assert f"main: 127.0.0.1:{port} refused the connection; check" in ended.failure.text
            assert ended.failure.text.endswith("(gave up after 8 tries in 10 s)")
            assert line.clock.slept_s == [0.25, 0.5, 1.0, 2.0, 4.0, 2.25]


async def test_a_connection_that_never_comes_is_cut() -> None:
    """P3."""
    with silent_port() as port:
        async with line_to(on_port(port, patience=Patience(connect_s=0.2), retry=BRIEFLY)) as line:
            task = line.start()
            assert "connecting to m · 0 s · reconnects at 0.2 s" in await line.told.until_line("connecting")
            ended = await task
            assert isinstance(ended, NoAnswer)
            assert line.told.close_reasons == ["connect_kill"] * 2
            assert "no connection in 0.2 s" in ended.failure.text


@on_each_wire
async def test_a_hung_resolver_for_one_host_delays_no_call_to_another(wire: Wire) -> None:
    """Scenario 16, P10."""
    async with ChaosServer(GOOD) as server:
        names = Names({"good.example": server.port})
        good = target_of(server, wire, "good", base_url="http://good.example/v1")
        hung = target_of(server, wire, "hung", base_url="http://hung.example/v1")
        async with line_to(hung, resolver=names) as line:
            stuck = line.start(sink=line.another_voice())
            await names.hung.reached()
            line.targets = (good,)
            assert isinstance(await line.ask(), Answer)
            assert not stuck.done()


class DeafDns(asyncio.DatagramProtocol):
    """A name server that answers for good.test with this machine, and for all else not at all."""

    def __init__(self) -> None:
        self.asked = Gate()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        question = data[12 : data.index(b"\0", 12) + 5]
        if not question.startswith(b"\x04good\x04test\x00"):
            self.asked.open()
            return
        is_a = question[-4:-2] == b"\x00\x01"
        head = data[:2] + b"\x81\x80\x00\x01" + (b"\x00\x01" if is_a else b"\x00\x00") + b"\x00\x00\x00\x00"
        record = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x7f\x00\x00\x01" if is_a else b""
        self._transport.sendto(head + question + record, addr)


async def test_the_real_resolver_does_not_hang_for_others_either() -> None:
    """Scenario 16, P10: c-ares against a name server that is deaf for one name."""
    loop = asyncio.get_running_loop()
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("127.0.0.1", 0))
    listening.setblocking(False)
    transport, dns = await loop.create_datagram_endpoint(DeafDns, sock=listening)
    resolver = aiohttp.AsyncResolver(nameservers=["127.0.0.1"], udp_port=listening.getsockname()[1])
    try:
        async with ChaosServer(GOOD) as server:
            good, deaf = (
                target_of(server, WIRE, base_url=f"http://{name}.test:{server.port}/v1")
                for name in ("good", "deaf")
            )
            async with line_to(deaf, resolver=resolver) as line:
                stuck = line.start(sink=line.another_voice())
                await dns.asked.passed()
                line.targets = (good,)
                assert isinstance(await line.ask(), Answer)
                assert not stuck.done()
    finally:
        transport.close()


async def test_a_name_that_does_not_exist_says_so() -> None:
    """P9."""
    target = Target(name="main", wire=WIRE, base_url="http://nowhere.invalid/v1", model="m")
    async with line_to(target, resolver=Missing({})) as line:
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        assert "can't resolve nowhere.invalid" in ended.failure.text


async def test_a_break_in_the_middle_of_a_body_names_the_host() -> None:
    """P9."""
    async with line_of(WIRE, [Say("hel"), Drop()], [Hang()]) as (line, server):
        line.patient(first_event_s=0.1)
        line.trying(attempts_max=1)
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        place = f"127.0.0.1:{server.port}"
        assert f"main: {place} closed the connection in the middle of the answer;" in ended.failure.text
