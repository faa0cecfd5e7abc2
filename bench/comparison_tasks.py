"""The tasks of bench/comparison.py: what the model server does, and when a program has done its task."""

import asyncio
import json
import os
import resource
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.chaos import (
    CallTool,
    ChaosServer,
    ClosedBy,
    Drop,
    EndOfBody,
    Gate,
    Hang,
    Say,
    Script,
    SeenRequest,
    Wait,
)

LIMIT_S = 60.0
START_LIMIT_S = 120.0
CLOSE_LIMIT_S = 5.0
ANSWER = "The answer is 42."


@dataclass(frozen=True)
class Measured:
    """How one program did: `seconds` run from its first request to its end, `cpu_s` from its start."""

    done: bool
    what: str
    seconds: float = 0.0
    cpu_s: float = 0.0


@dataclass
class Program:
    """One program of the comparison, as a process that asks our model server."""

    process: asyncio.subprocess.Process
    server: ChaosServer
    lines: list[str] = field(default_factory=list[str])

    async def line(self) -> str:
        """The next line that it prints; empty at its end."""
        assert self.process.stdout is not None
        line = (await self.process.stdout.readline()).decode().strip()
        self.lines.append(line)
        return line

    async def ended(self, expected: str) -> Measured:
        """Wait for its end, or cut it off; it did its task if its last line is the expected one."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        if not await self._started():
            return Measured(done=False, what=f"asked nothing for {START_LIMIT_S:.0f} s")
        try:
            async with asyncio.timeout(LIMIT_S):
                out, err = await asyncio.gather(self.process.stdout.read(), self.process.stderr.read())
                code = await self.process.wait()
        except TimeoutError:
            return Measured(done=False, what=f"still waiting, cut off after {LIMIT_S:.0f} s", seconds=LIMIT_S)
        seconds = self._since_first_request()
        last = ["", *self.lines, *out.decode().splitlines()][-1]
        if code:
            return Measured(done=False, what=f"raised {_error_named(err.decode())}", seconds=seconds)
        if last != expected:
            return Measured(done=False, what=f"gave “{last}” as the answer", seconds=seconds)
        return Measured(done=True, what="yes", seconds=seconds)

    async def _started(self) -> bool:
        """Wait for its first request, or its end if that comes first; a busy machine starts it slowly."""
        waits: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self.server.seen.until_request(1)),
            asyncio.ensure_future(self.process.wait()),
        ]
        done, pending = await asyncio.wait(waits, timeout=START_LIMIT_S, return_when=asyncio.FIRST_COMPLETED)
        for wait in pending:
            wait.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        return bool(done)

    def _since_first_request(self) -> float:
        requests = self.server.record.requests
        return time.monotonic() - requests[0].accepted_s if requests else 0.0


def _error_named(trace: str) -> str:
    """The class in the last line of a traceback."""
    lines = [line for line in trace.split("\n") if line and not line.startswith((" ", "+", "|"))]
    return lines[-1].partition(":")[0].rpartition(".")[2] if lines else "an error"


@dataclass(frozen=True)
class Library:
    """Something to write agents with: the interpreter that has it, and the folder of its programs."""

    name: str
    python: Path
    folder: Path

    @asynccontextmanager
    async def running(
        self, program: str, server: ChaosServer, home: str, *, own_url: bool = False
    ) -> AsyncGenerator[Program]:
        """Start a program; it is gone when the block is over."""
        process = await asyncio.create_subprocess_exec(
            self.python,
            self.folder / program,
            *([server.base_url] if own_url else []),
            cwd=home,
            env={
                "PATH": os.defpath,
                "HOME": home,
                "OPENAI_BASE_URL": server.base_url,
                "OPENAI_API_KEY": "none",
                # Its default is to send traces to its vendor; only loopback is asked here.
                "OPENAI_AGENTS_DISABLE_TRACING": "1",
            },
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            yield Program(process, server)
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()


Scene: TypeAlias = Callable[[Library, str], Awaitable[Measured]]


@dataclass(frozen=True)
class Task:
    """A row of the table: a program's name, and the scene that it is put into."""

    title: str
    program: str
    scene: Scene
    is_fault: bool = False


def _body(request: SeenRequest) -> dict[str, Any]:
    return dict(request.body or {})


def _tool_results(request: SeenRequest) -> list[str]:
    """What the tools returned so far, in both forms of OpenAI's API."""
    body = _body(request)
    chat = [item for item in body.get("messages", ()) if item["role"] == "tool"]
    given: Any = body.get("input", ())
    responses = [item for item in given if "output" in item]
    return [_plain(item["content"]) for item in chat] + [_plain(item["output"]) for item in responses]


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else json.dumps(content)


@asynccontextmanager
async def _server(*scripts: Script) -> AsyncGenerator[tuple[ChaosServer, str]]:
    with tempfile.TemporaryDirectory() as home:
        async with ChaosServer(*scripts) as server:
            yield server, home


@asynccontextmanager
async def _choosing(choose: Callable[[SeenRequest], Script]) -> AsyncGenerator[tuple[ChaosServer, str]]:
    with tempfile.TemporaryDirectory() as home:
        async with ChaosServer(choose=choose) as server:
            yield server, home


def _scripted(expected: str, *scripts: Script, own_url: bool = False) -> Scene:
    """The model answers by scripts, one per request."""

    async def scene(library: Library, program: str) -> Measured:
        async with (
            _server(*scripts) as (server, home),
            library.running(program, server, home, own_url=own_url) as running,
        ):
            return await running.ended(expected)

    return scene


def _chosen(expected: str, choose: Callable[[SeenRequest], Script]) -> Scene:
    """The model answers by what it is asked."""

    async def scene(library: Library, program: str) -> Measured:
        async with _choosing(choose) as (server, home), library.running(program, server, home) as running:
            return await running.ended(expected)

    return scene


def _sum(request: SeenRequest) -> Script:
    results = _tool_results(request)
    return [Say(f"It is {results[0]}.")] if results else [CallTool("add", {"a": 2, "b": 3})]


def _city(request: SeenRequest) -> Script:
    city = {"name": "Bern", "country": "Switzerland"}
    tools: Sequence[Any] = _body(request).get("tools") or ()
    if not tools:
        # One library puts the type into an object with a single field.
        wrapped = '"response"' in json.dumps(_body(request).get("text", ""))
        return [Say(json.dumps({"response": city} if wrapped else city))]
    return [CallTool(tools[0].get("name") or tools[0]["function"]["name"], city)]


def _payments(request: SeenRequest) -> Script:
    results = _tool_results(request)
    if len(results) < 2:
        return [CallTool("pay", {"cents": 500 if results else 5})]
    paid, refused = results
    return [Say("right" if paid == "paid 5 cents" and "Too much" in refused else f"wrong: {results}")]


def _name(request: SeenRequest) -> Script:
    text = json.dumps(_body(request))
    return [Say("Ann" if "I am Ann." in text and "Who am I?" in text else "Hello")]


def _hello(request: SeenRequest) -> Script:
    del request
    return [Say("hello")]


async def _streamed(library: Library, program: str) -> Measured:
    """The second piece is sent only after the program has printed the first."""
    gate = Gate()
    async with (
        _server([Say("one "), Wait(gate), Say("two")]) as (server, home),
        library.running(program, server, home) as running,
    ):
        try:
            async with asyncio.timeout(LIMIT_S):
                await running.line()
        except TimeoutError:
            return Measured(done=False, what="printed nothing while the answer came")
        gate.open()
        return await running.ended("one two")


async def _stopped(library: Library, program: str) -> Measured:
    """The program says that it stopped the run, and lives on; the model must have lost its caller by then."""
    async with (
        _server([Say("one "), Hang()]) as (server, home),
        library.running(program, server, home) as running,
    ):
        try:
            async with asyncio.timeout(LIMIT_S):
                said = await running.line()
        except TimeoutError:
            return Measured(done=False, what=f"still running, cut off after {LIMIT_S:.0f} s")
        if said != "stopped":
            return await running.ended("stopped")
        try:
            async with asyncio.timeout(CLOSE_LIMIT_S):
                closed = await server.seen.until_closed(1)
        except TimeoutError:
            return Measured(done=False, what=f"connection still open after {CLOSE_LIMIT_S:.0f} s")
        return Measured(done=closed is not ClosedBy.SERVER, what="yes")


async def _killed(library: Library, program: str) -> Measured:
    """The first process is killed while the model is asked the second time, after the tool has run."""
    scripts: Sequence[Script] = (
        [CallTool("note", {"text": "milk"})],
        [Say("It"), Hang()],
        [Say("It is noted.")],
    )
    async with _server(*scripts) as (server, home):
        async with library.running(program, server, home) as running:
            try:
                async with asyncio.timeout(LIMIT_S):
                    await server.seen.until_body(2)
            except TimeoutError:
                return Measured(done=False, what="never asked the model again")
            running.process.kill()
        async with library.running(program, server, home) as running:
            measured = await running.ended("It is noted.")
        times = len(await asyncio.to_thread(lambda: list(Path(home).glob("*.note"))))
        again = len(_tool_results(server.record.requests[-1]))
        if times != 1 or again != 1:
            what = f"tool ran {times} times, and the model saw {again} results"
            return Measured(done=False, what=what)
        return Measured(done=measured.done, what=measured.what)


def with_cpu(scene: Scene) -> Scene:
    """The same, with the CPU time of the program; only if no other program runs beside it."""

    async def measured(library: Library, program: str) -> Measured:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        result = await scene(library, program)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Measured(done=result.done, what=result.what, seconds=result.seconds, cpu_s=cpu_s)

    return measured


_HALF = Say("The answer is")
TASKS: Sequence[Task] = (
    Task("Hello", "hello.py", _scripted("hello", [Say("hello")])),
    Task("A tool", "tool.py", _chosen("It is 5.", _sum)),
    Task("Structured output", "structured.py", _chosen("Bern, Switzerland", _city)),
    Task("Streaming", "streaming.py", _streamed),
    Task("Approval before a tool", "approval.py", _chosen("right", _payments)),
    Task("Stop a run", "stop.py", _stopped),
    Task("Resume after `kill -9`", "resume.py", _killed),
    Task(
        "Stalled model, 5 s set",
        "stall.py",
        _scripted("hello", [Hang()], [Say("hello")], own_url=True),
        is_fault=True,
    ),
    Task("Dropped stream", "drop.py", _scripted(ANSWER, [_HALF, Drop()], [Say(ANSWER)]), is_fault=True),
    Task("50 runs at once", "fifty.py", _chosen("50", _hello)),
    Task("Test with a scripted model", "scripted.py", _scripted("passed")),
    Task("History over two turns", "history.py", _chosen("Ann", _name)),
)
# The same faults, for programs that do nothing about them.
AS_IT_COMES: Sequence[Task] = (
    Task("Stalled model", "hello.py", _scripted("hello", [Hang()], [Say("hello")]), is_fault=True),
    Task("Dropped stream", "streaming.py", _scripted(ANSWER, [_HALF, Drop()], [Say(ANSWER)]), is_fault=True),
    Task(
        "Stream that ends early, but cleanly",
        "streaming.py",
        _scripted(ANSWER, [_HALF, EndOfBody()], [Say(ANSWER)]),
        is_fault=True,
    ),
)
