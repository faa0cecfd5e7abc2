"""Runs plain code with the same faults, for comparison."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from http import HTTPStatus

import aiohttp
import msgspec

from holdfast.cli.demo.acts import CHILD_S

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
