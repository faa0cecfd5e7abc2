"""`holdfast serve` as a process of its own, as its users and its killers see it."""

import asyncio
import json
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import aiohttp

from forked import Files, Forked, fork
from serving import Frame, frames_in

CONFIG = """
[server]
data_dir = "{folder}/data"
api_keys = []
drain_s = {drain_s}
max_concurrent_runs = 16
{server}
[agent]
title_target = "off"
workspace = "{workspace}"
[approvals]
mode = "allow-workspace"
[sandbox]
mode = "{sandbox}"
[[targets]]
name = "main"
wire = "chat"
base_url = "{url}"
model = "m"
[targets.retry]
backoff_base_s = 0.05
backoff_max_s = 0.1
"""


def configure(
    folder: Path,
    model_url: str,
    *,
    drain_s: float = 10.0,
    sandbox: str = "auto",
    workspace: Path | None = None,
    server: str = "port = 0",
) -> None:
    """Write the configuration and make the workspace; `server` is further lines of its section."""
    workspace = workspace or folder / "work"
    workspace.mkdir(exist_ok=True)
    text = CONFIG.format(
        folder=folder,
        url=model_url,
        drain_s=drain_s,
        sandbox=sandbox,
        workspace=workspace,
        server=server,
    )
    (folder / "holdfast.toml").write_text(text, encoding="utf-8")


LOOKS = 5  # rounds of the event loop in which the ends of connections are noticed


@dataclass(frozen=True, slots=True)
class Program:
    """A server process that has said where it listens."""

    process: Forked | Process
    url: str
    http: aiohttp.ClientSession

    async def call(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Any request with JSON."""
        data = None if body is None else json.dumps(body).encode()
        async with self.http.request(method, self.url + path, data=data, headers=headers) as answer:
            return answer.status, json.loads(await answer.read())

    async def start(self, text: str, **fields: Any) -> str:
        """Start a run and return its id."""
        status, answer = await self.call("POST", "/v1/runs", {"input": text, **fields})
        assert status == 202, answer
        return answer["run_id"]

    async def events(self, run_id: str) -> list[Frame]:
        """The run's native events, up to its end or that of the server."""
        async with self.http.get(f"{self.url}/v1/runs/{run_id}/events?view=native") as answer:
            return [frame async for frame in frames_in(answer.content) if frame.id]

    async def until(self, run_id: str, kind: str) -> Frame:
        """The run's first event of the kind."""
        async with self.http.get(f"{self.url}/v1/runs/{run_id}/events?view=native") as answer:
            async for frame in frames_in(answer.content):
                if frame.data.get("type") == kind:
                    return frame
        raise AssertionError(f"{kind} never came")

    async def until_draining(self) -> None:
        """Wait until the server begins nothing more."""
        assert self.process.stderr is not None
        while b"finishing current work" not in (line := await self.process.stderr.readline()):
            assert line, "the server ended"

    async def ended(self) -> tuple[int, str]:
        """Wait for the process; its exit code and what it complained about."""
        _, said = await self.process.communicate()
        return await self.process.wait(), said.decode()


def types(frames: list[Frame]) -> list[str]:
    """The types of native events."""
    return [frame.data["type"] for frame in frames]


async def start_server(
    folder: Path, *, output: BinaryIO | None = None, limits: Mapping[int, tuple[int, int]] | None = None
) -> Forked:
    """Start the server of a folder; it may end before it listens."""
    words = ("serve", "--config", str(folder / "holdfast.toml"))
    written = Files() if output is None else Files(stdout=output.fileno(), stderr=output.fileno())
    return await fork(*words, cwd=folder, files=written, limits=limits)


@asynccontextmanager
async def program(
    folder: Path,
    *,
    limits: Mapping[int, tuple[int, int]] | None = None,
    command: Sequence[str] | None = None,
) -> AsyncGenerator[Program]:
    """A started server, with limits or a command of its own; killed at the end if it still runs."""
    if command:
        process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE, cwd=folder)
    else:
        process = await start_server(folder, limits=limits)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        greeting = (await process.stdout.readline()).decode()
        assert "Holdfast" in greeting, (await process.stderr.read()).decode()
        url = next(word for word in greeting.split() if word.startswith("http://"))
        # The server closes idle connections after 5 s, and a request must not meet that.
        connector = aiohttp.TCPConnector(keepalive_timeout=2)
        patience = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=patience) as http:
            try:
                yield Program(process, url, http)
            finally:
                await _killed(process)
                # Readers of streams see their end first: a session that is closed lets them wait for ever.
                for _ in range(LOOKS):
                    await asyncio.sleep(0)
    finally:
        await _killed(process)


async def _killed(process: Forked | Process) -> None:
    """Kill it if it still runs, and wait for its end."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        await process.communicate()
