"""A real terminal for tests: a program in tmux, its screen checked, waited for by what it shows."""

import asyncio
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

HOLDFAST = (sys.executable, "-m", "holdfast")
LOOK_S = 0.05
PATIENCE_S = 90.0


@dataclass(frozen=True, slots=True)
class Terminal:
    """One window."""

    socket: str

    async def tmux(self, *arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *("tmux", "-S", self.socket, "-f", "/dev/null", *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate()
        return out.decode()

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
                while not is_there(screen := await self.screen()):  # noqa: ASYNC110  # tmux tells nobody
                    await asyncio.sleep(LOOK_S)
        except TimeoutError:
            raise AssertionError(f"the screen never showed {shows!r}:\n{screen}") from None
        return screen


@asynccontextmanager
async def terminal(*command: str, folder: Path) -> AsyncGenerator[Terminal]:
    """The command in a window of its own; the window stays when the command ends."""
    place = await asyncio.to_thread(tempfile.mkdtemp, prefix="hf")  # a short path, as sockets need it
    window = Terminal(f"{place}/tmux")
    quoted = " ".join(f"'{word}'" for word in command)
    await window.tmux(
        *("new-session", "-d", "-x", "100", "-y", "40", "-c", str(folder), "-e", f"HOME={folder}"),
        f"{quoted}; echo exit=$?; exec cat",
    )
    try:
        yield window
    finally:
        await window.tmux("kill-server")
        await asyncio.to_thread(shutil.rmtree, place)
