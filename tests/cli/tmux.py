"""A real terminal for tests: a program in tmux, its screen checked, waited for by what it shows."""

import asyncio
import shlex
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

HOLDFAST = (sys.executable, "-m", "holdfast")
PATIENCE_S = 90.0
LINE_BYTES_MAX = 1 << 20


class Terminal:
    """One window, at the other end of a tmux client in control mode.

    Such a client takes one command per line, and tells of all that is written to the window.
    """

    def __init__(self, client: asyncio.subprocess.Process) -> None:
        self._client = client
        self._replies: deque[asyncio.Future[str]] = deque()
        self._written = asyncio.Event()

    async def tmux(self, *arguments: str) -> str:
        """Send a command to tmux; its reply."""
        return await self._send(*arguments)

    def _send(self, *arguments: str) -> asyncio.Future[str]:
        assert self._client.stdin is not None
        reply: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._replies.append(reply)
        self._client.stdin.write(f"{shlex.join(arguments)}\n".encode())
        return reply

    async def end(self) -> None:
        """Close the window, and with it tmux, which may not even reply."""
        self._send("kill-server")
        await self._client.wait()

    async def follow(self) -> None:
        """Read replies and news until tmux ends."""
        assert self._client.stdout is not None
        reply: list[str] | None = None
        async for raw in self._client.stdout:
            # News of what is written may begin or end within a character; a reply never does.
            line = raw.decode(errors="replace").removesuffix("\n")
            word, _, rest = line.partition(" ")
            if word == "%begin":
                reply = []
            elif word in {"%end", "%error"} and reply is not None:
                if rest.endswith(" 1"):  # otherwise, it is what began the session
                    self._replies.popleft().set_result("\n".join(reply))
                reply = None
            elif reply is not None:
                reply.append(line)
            else:
                self._written.set()
        for left in self._replies:
            left.cancel()

    async def screen(self) -> str:
        """What is on the screen now, and what has scrolled out of it."""
        return await self.tmux("capture-pane", "-p", "-S", "-500")

    async def keys(self, *keys: str) -> None:
        """Press keys, by their tmux names, or type text."""
        await self.tmux("send-keys", *keys)

    async def say(self, text: str) -> None:
        """Type a line and send it."""
        await self.tmux("send-keys", "-l", text)
        await self.keys("Enter")

    async def until(self, shows: Callable[[str], bool] | str) -> str:
        """The screen as soon as it shows this; a text may be wrapped, so spaces and line ends are one."""
        screen = ""

        def is_there(screen: str) -> bool:
            return shows(screen) if callable(shows) else shows in " ".join(screen.split())

        try:
            async with asyncio.timeout(PATIENCE_S):
                while not is_there(screen := await self.screen()):
                    await self._written.wait()
                    self._written.clear()
        except TimeoutError:
            raise AssertionError(f"the screen never showed {shows!r}:\n{screen}") from None
        return screen


@asynccontextmanager
async def terminal(*command: str, folder: Path) -> AsyncGenerator[Terminal]:
    """The command in a window of its own; the window stays when the command ends."""
    place = await asyncio.to_thread(tempfile.mkdtemp, prefix="hf")  # a short path, as sockets need it
    client = await asyncio.create_subprocess_exec(
        *("tmux", "-u", "-S", f"{place}/tmux", "-f", "/dev/null", "-C"),
        *("new-session", "-x", "100", "-y", "40", "-c", str(folder), "-e", f"HOME={folder}"),
        f"{shlex.join(command)}; echo exit=$?; exec cat",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_BYTES_MAX,
    )
    window = Terminal(client)
    following = asyncio.create_task(window.follow())
    try:
        yield window
    finally:
        await window.end()
        await following
        await asyncio.to_thread(shutil.rmtree, place)
