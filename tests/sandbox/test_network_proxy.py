"""The sandbox's way out: by host name, to addresses that were checked, and closed with the command."""

import asyncio
import os
import shutil
import subprocess

import pytest

from holdfast.policy.host_rules import BadHost, host_rules
from holdfast.sandbox.network_proxy import (
    HEAD_BYTES_MAX,
    PROXY_VARIABLES,
    NetworkProxy,
    ProxyLimits,
    read_inside,
)
from sandbox.proxy_world import Names, connect, opened, said, upstream
from stream_server import stream_server


async def silently(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say nothing until the other side hangs up."""
    await reader.read()
    writer.close()
    await writer.wait_closed()


async def test_a_listed_host_is_reached_through_a_tunnel_and_by_plain_http() -> None:
    async with upstream() as far:
        names = Names()
        rules = host_rules([f"*.example:{far.port}", f"127.0.0.1:{far.port}"])
        async with opened(NetworkProxy(rules, resolve=names)) as port:
            tunnel = await said(port, connect(f"PyPI.example.:{far.port}") + b"hello")
            plain = await said(
                port,
                b"GET http://files.example:%d/a?b=c HTTP/1.1\r\nHost: other.example\r\n"
                b"Proxy-Authorization: x\r\nConnection: keep-alive\r\nAccept: */*\r\n\r\n" % far.port,
            )
    assert tunnel == (
        b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\n\r\nechoed:hello"
    )
    request = b"GET /a?b=c HTTP/1.1\r\nHost: files.example:%d\r\nConnection: close\r\nAccept: */*\r\n\r\n"
    assert plain.endswith(b"echoed:" + request % far.port)
    assert names.asked == ["PyPI.example.", "files.example"]


async def test_other_hosts_are_refused_with_a_sentence_and_never_resolved() -> None:
    names = Names()
    proxy = NetworkProxy(host_rules(["pypi.example", "*.files.example"]), resolve=names)
    async with opened(proxy) as port:
        for host in ("evil.example:443", "files.example:443", "xpypi.example:443", "pypi.example:22"):
            answer = await said(port, connect(host))
            assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n"), host
            assert b"is not on the list of hosts" in answer
        for host in ("127.0.0.1:80", "[::1]:80", "2130706433:80", "0x7f000001:80", "127.1:80"):
            assert (await said(port, connect(host))).startswith(b"HTTP/1.1 403"), host
    assert proxy.blocked[:4] == ("evil.example", "files.example", "xpypi.example", "pypi.example:22")
    assert names.asked == []


async def test_a_listed_name_that_leads_to_an_inner_address_is_refused() -> None:
    inner = ("127.0.0.1", "10.0.0.7", "169.254.169.254", "::1", "fd00::1", "::ffff:127.0.0.1", "no")
    table = {f"{number}.example": [address] for number, address in enumerate(inner)}
    proxy = NetworkProxy(host_rules([*table]), resolve=Names(table))
    async with opened(proxy) as port:
        answers = {host: await said(port, connect(f"{host}:443")) for host in table}
    for host, answer in answers.items():
        assert answer.startswith(b"HTTP/1.1 403 Forbidden"), table[host]
        assert b"its address is not public" in answer, table[host]
    assert proxy.blocked == tuple(table)


async def test_what_is_no_proxy_request_gets_a_clear_error() -> None:
    async with opened(NetworkProxy(host_rules(["a.example"]), resolve=Names())) as port:
        for request, status in [
            (b"\x16\x03\x01\r\n\r\n", b"400"),
            (b"GET / HTTP/1.1\r\n\r\n", b"400"),
            (b"GET https://a.example/ HTTP/1.1\r\n\r\n", b"400"),
            (b"GET http://u@a.example/ HTTP/1.1\r\n\r\n", b"400"),
            (b"CONNECT a.example HTTP/1.1\r\n\r\n", b"400"),
            (b"CONNECT a.example:70000 HTTP/1.1\r\n\r\n", b"400"),
            *(
                (b"GET http://a.example/ HTTP/1.1\r\n%b\r\n\r\n" % fields, b"400")
                for fields in (
                    b"Host: a.example\r\nHost: b.example",
                    b"X: a\nHost: b.example",
                    b"X: a\rHost: b.example",
                    b"X: a\r\n Host: b.example",
                    b"Host : b.example",
                    b"\x00Host: b.example",
                    b"Host",
                    b"Content-Length: 1\r\nContent-Length: 2",
                    b"Content-Length: 1\r\nTransfer-Encoding: chunked",
                    b"Transfer-Encoding: chunked\r\ntransfer-encoding: identity",
                )
            ),
            (b"GET http://a.example/ HTTP/1.1\r\nX: " + b"x" * HEAD_BYTES_MAX * 2 + b"\r\n\r\n", b"431"),
        ]:
            assert (await said(port, request)).split(b" ")[1] == status, request[:60]


async def test_a_silent_client_a_silent_host_and_too_many_connections_are_bounded() -> None:
    limits = ProxyLimits(connections=1, head_s=1.0, idle_s=1.0)
    async with stream_server(silently) as far:
        rules = host_rules([f"a.example:{far}", "127.0.0.1"])
        async with opened(NetworkProxy(rules, resolve=Names(), limits=limits)) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert (await reader.read()).startswith(b"HTTP/1.1 408")
            writer.close()
            await writer.wait_closed()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(connect(f"a.example:{far}"))
            assert b"200" in await reader.readline()
            refused = await said(port, connect(f"a.example:{far}"))
            assert refused.startswith(b"HTTP/1.1 503")
            assert await reader.read() == b"\r\n"  # cut, because nothing moved
            writer.close()
            await writer.wait_closed()


async def test_leaving_closes_every_connection_and_a_command_that_dies_early_leaves_nothing() -> None:
    async with stream_server(silently) as far:
        proxy = NetworkProxy(host_rules([f"a.example:{far}", "127.0.0.1"]), resolve=Names())
        async with opened(proxy) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(connect(f"a.example:{far}"))
            assert b"200" in await reader.readline()
        assert await reader.read() == b"\r\n"
        writer.close()
        await writer.wait_closed()
    async with NetworkProxy(host_rules(["a.example"])) as never:
        never.started()


def test_an_entry_that_is_no_host_is_refused() -> None:
    for entry in ("", "*", "http://a.example", "a b", "127.1", "a.example:0", "*.*.example"):
        with pytest.raises(BadHost):
            assert not host_rules([entry]), entry


@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
async def test_inside_a_network_of_its_own_a_program_reaches_only_the_listed_host() -> None:
    script = (
        'curl -sS -m 20 http://pypi.example:$1/x; echo "[$?]";'
        ' curl -sS -m 20 -o /dev/null -w "%{http_code}" http://evil.example/; echo "[$?]";'
        ' curl -sS -m 20 --noproxy "*" -o /dev/null http://127.0.0.1:$1/; echo "[$?]";'
        " getent hosts pypi.example; ls /proc/self/fd | wc -l"
    )
    async with upstream() as far:
        proxy = NetworkProxy(host_rules([f"pypi.example:{far.port}", "127.0.0.1"]), resolve=Names())
        async with proxy:
            command = ("/bin/sh", "-c", script, "sh", str(far.port))
            inside = await asyncio.to_thread(proxy.argv_for, command)
            readable = ("/", *await asyncio.to_thread(read_inside))
            binds = [word for path in readable for word in ("--ro-bind", path, path)]
            process = await asyncio.create_subprocess_exec(
                *("bwrap", *binds, "--proc", "/proc", "--dev", "/dev", "--unshare-all"),
                *("--die-with-parent", "--", *inside),
                env={"PATH": os.defpath, **PROXY_VARIABLES},
                pass_fds=[proxy.fd],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            proxy.started()
            async with asyncio.timeout(60):
                output, _ = await process.communicate()
    text = output.decode()
    assert text.startswith("echoed:GET /x HTTP/1.1\r\n")
    assert "403[0]" in text
    assert "[7]" in text  # nothing listens there: the server of the test is in another network
    assert text.rstrip().endswith("4"), text  # its three and the folder: nothing of ours was inherited
    assert proxy.blocked == ("evil.example",)
