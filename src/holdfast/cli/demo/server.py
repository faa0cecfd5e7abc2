"""The server of the tour: a real process with its own directory, started, killed and restarted.

Runs plain code with the same faults, for comparison.
"""

import asyncio
import os
import secrets
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path

import aiohttp
import msgspec

from holdfast.cli.demo.acts import CHILD_S, Pace
from holdfast.client import Address
from holdfast.host.lock import read_holder

START_S, END_S, LOOK_S = 60.0, 15.0, 0.05
OF_OTHERS = ("HOLDFAST_", "HERMES_", "API_SERVER_")

CONFIG = """
[server]
port = 0
data_dir = "{folder}/data"
api_keys = ["{key}"]

[[targets]]
name = "demo"
wire = "chat"
base_url = "{url}"
model = "demo"
patience = {{ connect_s = 5, first_event_s = {first_event_s}, gap_s = 20 }}
retry = {{ attempts_per_target_max = 5, backoff_base_s = 0.2, backoff_max_s = 0.5 }}

[agent]
workspace = "{folder}"

[approvals]
rules = [{{ allow = "shell", argv = ["sleep"] }}]
"""


class NotServing(Exception):
    """The server process ended or didn't start; the text is its output."""


class TourServer:
    """A server process; its creator closes it, and then nothing of it is left running."""

    def __init__(self, folder: Path, model_url: str, *, pace: Pace) -> None:
        self._folder = folder
        self._key = f"tour-{secrets.token_hex(16)}"
        self._text = CONFIG.format(
            folder=folder, key=self._key, url=model_url, first_event_s=pace.first_event_s
        )
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The process that serves now."""
        assert self._process is not None, "the server wasn't started"
        return self._process.pid

    async def start(self) -> None:
        """Start it and wait until it listens; raises NotServing."""
        config = self._folder / "holdfast.toml"
        await asyncio.to_thread(_write, config, self._text)
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "holdfast", "serve", "--config", str(config)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            cwd=self._folder,
            env=clean_environment(),
        )
        await self.where()

    async def where(self) -> Address:
        """The address that it wrote into the directory's lock."""
        assert self._process is not None, "the server wasn't started"
        try:
            async with asyncio.timeout(START_S):
                while True:
                    holder = await asyncio.to_thread(read_holder, self._folder / "data")
                    if holder is not None and holder.pid == self._process.pid:
                        return Address(holder.url, self._key)
                    if self._process.returncode is not None:
                        raise NotServing(await self._last_words())
                    await asyncio.sleep(LOOK_S)
        except TimeoutError as error:
            raise NotServing(f"it didn't start within {START_S:g} s") from error

    async def _last_words(self) -> str:
        assert self._process is not None
        assert self._process.stderr is not None
        return (await self._process.stderr.read()).decode("utf-8", "replace").strip()

    async def kill(self) -> None:
        """Kill it with signal 9, as in a crash."""
        assert self._process is not None, "the server wasn't started"
        self._process.kill()
        await self._process.communicate()

    async def close(self) -> None:
        """Stop it in an orderly way, or by force if it doesn't respond."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(END_S):
                await self._process.communicate()
        except TimeoutError:
            await self.kill()


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def clean_environment() -> Mapping[str, str]:
    """The environment without settings that are meant for another server."""
    found = os.environ.items()  # noqa: TID251  # this is the edge
    return {name: value for name, value in found if not name.startswith(OF_OTHERS)}


USUAL_TIMEOUT_S = 600  # what the openai package waits by default
EVENT = b"data: "
# The usual way to write it: the answer grows in a variable.
READER = """
import json, sys, urllib.request
body = {"model": "naive", "stream": True, "messages": [{"role": "user", "content": sys.argv[2]}]}
request = urllib.request.Request(sys.argv[1], json.dumps(body).encode(), {"content-type": "application/json"})
answer = ""
for line in urllib.request.urlopen(request):
    if line.startswith(b"data: {"):
        for choice in json.loads(line[6:])["choices"]:
            piece = choice["delta"].get("content")
            if piece:
                answer += piece
                print(len(answer), flush=True)
"""


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta = msgspec.field(default_factory=_Delta)


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []


async def naive_answer(base_url: str, said: str, *, patience_s: float) -> str:
    """Describe what a plain streaming client gets from the same model."""
    body = {"model": "naive", "stream": True, "messages": [{"role": "user", "content": said}]}
    text = ""
    try:
        async with (
            asyncio.timeout(patience_s),
            aiohttp.ClientSession() as http,
            http.post(f"{base_url}/chat/completions", json=body) as answer,
        ):
            if answer.status != HTTPStatus.OK:
                return f"gets HTTP {answer.status} and stops: no answer"
            async for line in answer.content:
                text += _said(line)
    except TimeoutError:
        return (
            f"had received nothing after {patience_s:g} s, when we stopped watching; "
            f"by default it waits {USUAL_TIMEOUT_S} s"
        )
    except aiohttp.ClientError as error:
        return f"is left with “{text.strip()}” and an exception ({type(error).__name__})"
    return f"gets “{text.strip()}”"


def _said(line: bytes) -> str:
    if not line.startswith(EVENT) or line.startswith(b"data: [DONE]"):
        return ""
    chunk = msgspec.json.decode(line[len(EVENT) :], type=_Chunk)
    return "".join(choice.delta.content or "" for choice in chunk.choices)


async def naive_crash(base_url: str, said: str, *, pieces: int) -> str:
    """Describe what is left of an answer when plain code is killed."""
    reader = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", READER, f"{base_url}/chat/completions", said), stdout=asyncio.subprocess.PIPE
    )
    assert reader.stdout is not None
    heard = 0
    try:
        while heard < pieces and await reader.stdout.readline():
            heard += 1
    finally:
        if reader.returncode is None:
            reader.kill()
        await reader.communicate()
    return f"was killed the same way after {heard} chunks; they were only in memory, so nothing is left"


async def naive_stop() -> str:
    """Describe what happens to a grandchild when plain code kills only its shell."""
    shell = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", f"sleep {CHILD_S + 1} >&- 2>&- & echo $!; wait"), stdout=asyncio.subprocess.PIPE
    )
    assert shell.stdout is not None
    child = int(await shell.stdout.readline())
    try:
        shell.kill()
        await shell.wait()
        alive = _is_alive(child)
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    if alive:
        return f"kills the shell, but the program (pid {child}) keeps running; the demo had to kill it"
    return "got lucky this time: the program ended with its shell"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
