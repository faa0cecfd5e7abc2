"""The program as scripts and people start it: commands, servers, and their configuration."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import aiohttp

from cli.tmux import HOLDFAST, Terminal
from forked import Forked, fork
from holdfast.chaos import ChaosServer

KEY = "a-key-that-is-long-enough"
READY = "twice to quit."  # the chat takes lines now
SERVER = """
[server]
port = 0
data_dir = "{folder}/data"
api_keys = ["{key}"]
[agent]
title_target = "off"
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "m"
api_key = "sk-test-of-a-key"
"""
COMMAND = """
[server]
data_dir = "{folder}/data"
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "m"
[targets.retry]
attempts_max = 3
backoff_base_s = 0.01
unreachable_s = 0.3
"""


def configure(folder: Path, chaos: ChaosServer) -> None:
    """The configuration of a server with one key."""
    text = SERVER.format(folder=folder, key=KEY, url=chaos.base_url)
    (folder / "holdfast.toml").write_text(text)


def configured(folder: Path, url: str, *, more: str = "") -> None:
    """The configuration of commands that start a server for themselves."""
    (folder / "holdfast.toml").write_text(COMMAND.format(folder=folder, url=url) + more)


class Start(Protocol):
    """Starts the program with the configuration of a folder."""

    def __call__(self, folder: Path, *arguments: str) -> Awaitable[Forked | asyncio.subprocess.Process]: ...


async def started(folder: Path, *arguments: str) -> Forked:
    """The program, in the folder and with its configuration."""
    return await fork(*arguments, "--config", str(folder / "holdfast.toml"), cwd=folder)


async def executed(folder: Path, *arguments: str) -> asyncio.subprocess.Process:
    """The same as a program that is executed: it imports all, and inherits how signals act."""
    return await asyncio.create_subprocess_exec(
        *(*HOLDFAST, *arguments, "--config", str(folder / "holdfast.toml")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=folder,
    )


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that is over."""

    code: int
    out: str
    err: str


async def command(folder: Path, *arguments: str, typed: str = "", start: Start = started) -> Ended:
    """Run a command to its end."""
    process = await start(folder, *arguments)
    out, err = await process.communicate(typed.encode())
    assert process.returncode is not None
    return Ended(process.returncode, out.decode(), err.decode())


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that has said where it listens."""

    process: Forked | asyncio.subprocess.Process
    url: str
    http: aiohttp.ClientSession

    async def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        data = None if body is None else json.dumps(body)
        async with self.http.request(method, self.url + path, data=data) as answer:
            return await answer.json()

    async def until(self, run_id: str, kind: str) -> dict[str, Any]:
        """The run's first event of the kind."""
        path = f"{self.url}/v1/runs/{run_id}/events?view=native"
        async with self.http.get(path) as answer:
            async for line in answer.content:
                if line.startswith(b"data: ") and (event := json.loads(line[6:]))["type"] == kind:
                    return event
        raise AssertionError(f"{kind} never came")

    async def types(self, run_id: str) -> list[str]:
        """The types of the run's events, up to its end."""
        path = f"{self.url}/v1/runs/{run_id}/events?view=native"
        async with self.http.get(path) as answer:
            lines = [line async for line in answer.content if line.startswith(b"data: ")]
        return [json.loads(line[6:])["type"] for line in lines]


@asynccontextmanager
async def serving(
    folder: Path, *, end_with: signal.Signals = signal.SIGTERM, start: Start = started
) -> AsyncGenerator[Serving]:
    """`holdfast serve`, ended by a signal."""
    process = await start(folder, "serve")
    assert process.stdout is not None
    assert process.stderr is not None
    greeting = (await process.stdout.readline()).decode()
    assert "Holdfast" in greeting, (await process.stderr.read()).decode()
    url = next(word for word in greeting.split() if word.startswith("http://"))
    headers = {"Authorization": f"Bearer {KEY}"}
    async with aiohttp.ClientSession(headers=headers) as http:
        try:
            yield Serving(process, url, http)
        finally:
            process.send_signal(end_with)
            await process.communicate()


@contextmanager
def hang_ups(act: signal.Handlers) -> Generator[None]:
    """Programs that are executed meanwhile begin with this act on SIGHUP and SIGQUIT.

    nohup has the first ignored, and a shell the second for what it starts in the background: tests too.
    """
    before = {number: signal.signal(number, act) for number in (signal.SIGHUP, signal.SIGQUIT)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def chat(folder: Path, *arguments: str) -> tuple[str, ...]:
    """The command that opens the chat with the configuration of a folder."""
    return (*HOLDFAST, "chat", "--config", str(folder / "holdfast.toml"), *arguments)


def session_on(screen: str) -> str:
    """The id of the session that the screen names."""
    return next(word for word in screen.split() if word.startswith("ses_"))


async def answered(window: Terminal, text: str) -> str:
    """The screen with this answer as soon as its run has ended and the input line is empty.

    While something is printed, the input line and the line of the run above it are away.
    """

    def has_ended(screen: str) -> bool:
        return text in screen and "⋯" not in screen and screen.rstrip().endswith("\n>")

    return await window.until(has_ended)


async def left(window: Terminal) -> str:
    """Leave, and what the screen says then."""
    await window.keys("C-d")
    return await window.until("exit=0")
