"""`holdfast mcp-sign-in`: signs you in to an MCP server, in a browser on this machine or on another."""

import asyncio
import logging
import sys
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from holdfast.cli.doctor.findings import counted
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.config.load import BadConfiguration, load_configuration

if TYPE_CHECKING:
    from mcp.shared.auth import AuthorizationCodeResult

    from holdfast.config.mcp_servers import McpServerConfig
    from holdfast.features.mcp_client.server import ServerPlace

OK, FAILED = 0, 1
WITHIN_S = 600.0
_REQUEST_BYTES_MAX = 16_384
_READ_S = 5.0
_DONE = b"You can close this page and return to the terminal.\n"
_HEAD = b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"


def mcp_sign_in(flags: Mapping[str, object], *, name: str, forget: bool = False) -> int:
    """Sign in, or forget the sign-in; the exit code."""
    try:
        settings = load_configuration(flags).settings
    except BadConfiguration as error:
        return _failed(str(error))
    found = next((one for one in settings.mcp_servers if one.name == name), None)
    if found is None:
        known = ", ".join(one.name for one in settings.mcp_servers) or "none"
        return _failed(f"no MCP server is named {name!r}; configured: {known}")
    from holdfast.config.mcp_servers import mcp_config
    from holdfast.features.mcp_client.session_tools import server_place
    from holdfast.features.mcp_client.sign_in import SignInFailed

    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # the error is reported once, below
    config, place = mcp_config(found), server_place(settings)
    if forget:
        return _forget(config, place)
    try:
        return asyncio.run(_sign_in(config, place))
    except SignInFailed as error:
        return _failed(f"couldn't sign in to {name}: {error}")
    except KeyboardInterrupt:
        return _failed("stopped; nothing was changed")


def _failed(text: str) -> int:
    echo_error(f"holdfast: {text}")
    return FAILED


def _forget(config: "McpServerConfig", place: "ServerPlace") -> int:
    file = place.sign_in_file(config)
    if file is None or not file.forget():
        return _failed(f"no stored sign-in for {config.name}")
    echo(f"Deleted the sign-in for {config.name}. To revoke access, remove Holdfast from your account there.")
    return OK


async def _sign_in(config: "McpServerConfig", place: "ServerPlace") -> int:
    from holdfast.features.mcp_client.sign_in import sign_in

    async with _browser(config, place) as browser:
        done = await sign_in(config, place=place, person=browser, within_s=WITHIN_S)
    if done.asked:
        echo(f"Signed in to {config.name}. It has {counted(done.tools, 'tool')}.")
    else:
        echo(f"{config.name} needs no sign-in. It has {counted(done.tools, 'tool')}.")
    return OK


class Browser:
    """A person with a browser: comes back to a port of this machine, or pastes the address."""

    def __init__(self, redirect_uri: str) -> None:
        self.redirect_uri = redirect_uri
        self._back: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._state = ""

    async def show(self, url: str) -> None:
        """Show the address to open."""
        self.expect(parse_qs(urlsplit(url).query).get("state", [""])[0])
        echo(f"Open this URL in your browser and sign in:\n\n{url}\n")
        echo(
            "If your browser is on another machine, its last page won't load. "
            "Copy that page's URL and paste it here:",
        )
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read_lines, args=(loop,), name="pasted address", daemon=True).start()

    def expect(self, state: str) -> None:
        """Take no answer but one with this state."""
        self._state = state

    async def came_back(self) -> "AuthorizationCodeResult":
        """Return the parameters from the sign-in page."""
        from holdfast.features.mcp_client.sign_in import read_redirect

        return read_redirect(await self._back)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take the browser's request to the port."""
        try:
            async with asyncio.timeout(_READ_S):
                line = (await reader.readline())[:_REQUEST_BYTES_MAX].decode("ascii", "replace")
            words = line.split(" ")
            is_ours = len(words) > 1 and words[0] == "GET" and self._take(words[1])
            body = _DONE if is_ours else b"Not found.\n"
            writer.write(_HEAD % (b"200 OK" if is_ours else b"404 Not Found", len(body)) + body)
            await writer.drain()
        except (OSError, TimeoutError, ValueError):
            return  # a browser that left does not matter, and another may come
        finally:
            writer.close()

    def _take(self, url: str) -> bool:
        """Use the address if it belongs to this sign-in; any page can make a browser call this port."""
        try:
            given = parse_qs(urlsplit(url).query)
        except ValueError:
            return False
        if not self._state or given.get("state") != [self._state]:
            return False
        if not self._back.done():
            self._back.set_result(url)
        return True

    def _read_lines(self, loop: asyncio.AbstractEventLoop) -> None:
        for line in sys.stdin:
            try:
                loop.call_soon_threadsafe(self._pasted, line.strip())
            except RuntimeError:
                return  # the loop is closed

    def _pasted(self, line: str) -> None:
        if line and not self._take(line):
            echo("That isn't this sign-in's URL. Copy the full URL and paste it:")


@asynccontextmanager
async def _browser(config: "McpServerConfig", place: "ServerPlace") -> AsyncGenerator[Browser]:
    from holdfast.features.mcp_client.sign_in import registered_port

    wanted = (config.oauth.redirect_port if config.oauth else 0) or registered_port(config, place)
    holder: list[Browser] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await holder[0].answer(reader, writer)

    try:
        server = await asyncio.start_server(answer, "127.0.0.1", wanted)
    except OSError:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)  # then we register anew
    async with server:
        port = server.sockets[0].getsockname()[1]
        holder.append(Browser(f"http://127.0.0.1:{port}/callback"))
        yield holder[0]
