"""Real clients, what people do with them, and both routes: against `holdfast serve` and a scripted model.

    python bench/clients.py --cache ~/.cache/holdfast-clients [--only openai,anthropic] [--tasks plain,tools]

The clients are installed into the cache folder, at the versions that client_environments.py pins; their
programs are in bench/clients. Each runs against the agent (the model `holdfast`) and through the relay (a
name that a pattern matches). A table says for each task: ok, - if a client has no way to do it, or FAILED and
what differed. Bytes on both sides of Holdfast are recorded: no key may cross, and a relayed body must arrive
as it was sent but for the model's name. With `--record FILE`, each client's requests are added to it. Only
loopback addresses are contacted. The exit status is 1 if a cell failed.
"""

import argparse
import asyncio
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client_environments import ENVIRONMENTS, NODE, folder_of, install, named, search_path
from client_model import ANSWER, TaskModel
from client_scene import Recorder, holdfast, is_same_but_for_the_model
from holdfast.chaos import ChaosServer
from recorded_requests import written

PROGRAMS = Path(__file__).parent / "clients"
TASKS = ("plain", "stream", "structured", "tools", "multi-turn", "errors", "retry", "timeout")
TASK_S = 40.0
KEY = "client-key-of-the-matrix-0123456789"
UPSTREAM_KEY = "upstream-key-of-the-matrix-0123456789"
WIRES = {"chat": "chat", "responses": "responses", "messages": "anthropic", "tools": "chat", "json": "chat"}
RELAYED = {"chat": "gpt-5.2", "responses": "gpt-5.2", "anthropic": "claude-sonnet-4-6"}
PATHS = {"chat": "/v1/chat/completions", "responses": "/v1/responses", "anthropic": "/v1/messages"}
CONFIG = """\
[server]
port = 0
data_dir = "{base}/data"
api_keys = ["{key}"]
[agent]
workspace = "{base}/work"
[approvals]
mode = "allow-workspace"
[undo]
enabled = false
[relay.models]
"claude-*" = "{wire}"
"gpt-*" = "{wire}"
"""
TARGET = """
[[targets]]
name = "{wire}"
wire = "{wire}"
base_url = "{url}"
model = "{wire}-model"
api_key = "{key}"
[targets.patience]
first_event_s = 20
[targets.retry]
backoff_base_s = 0.05
backoff_max_s = 0.1
"""
_TURN = "The tool says: {}"
EXPECTED: Mapping[str, Any] = {
    "plain": {"text": "hello", "tokens": True},
    "stream": {"text": "one two three", "in pieces": True},
    "tools": {"called for": ["Bern"], "texts": [_TURN.format("21 degrees")]},
    "multi-turn": {
        "called for": ["Bern", "Thun"],
        "texts": [_TURN.format("21 degrees"), _TURN.format("19 degrees")],
    },
    "structured": ANSWER,
    "errors": {
        "wrong key": 401,
        "unknown model": 404,
        "refused": 400,
        "quota": 429,
        "overloaded": 503,
        "half an answer": "error",
    },
    "retry": {"text": "at last"},
    "timeout": {"text": "done"},
}

# What a client makes of a status by itself.
OWN_ERRORS: Mapping[tuple[str, str], Mapping[str, Any]] = {("litellm", "messages"): {"overloaded": 500}}


@dataclass(frozen=True, slots=True)
class Client:
    """A client on one protocol: its program, and the routes that it can use."""

    name: str
    environment: str
    program: str
    surface: str
    routes: tuple[str, ...] = ("agent", "relay")

    @property
    def label(self) -> str:
        """Its name and its protocol, as the table has them."""
        return f"{self.name} ({self.surface})"


def _clients() -> tuple[Client, ...]:
    both, relay = ("agent", "relay"), ("relay",)
    rows: Sequence[tuple[str, str, str, tuple[str, ...]]] = (
        ("openai", "openai_package.py", "chat", both),
        ("openai", "openai_package.py", "responses", both),
        ("openai-node", "openai_package.mjs", "chat", both),
        ("openai-node", "openai_package.mjs", "responses", both),
        ("anthropic", "anthropic_package.py", "messages", relay),
        ("openai-agents", "openai_agents_sdk.py", "chat", both),
        ("openai-agents", "openai_agents_sdk.py", "responses", both),
        ("pydantic-ai", "pydantic_ai_package.py", "chat", both),
        ("pydantic-ai", "pydantic_ai_package.py", "responses", both),
        ("pydantic-ai", "pydantic_ai_package.py", "messages", relay),
        ("langchain-openai", "langchain_package.py", "chat", both),
        ("langchain-openai", "langchain_package.py", "responses", both),
        ("instructor", "instructor_package.py", "tools", both),
        ("instructor", "instructor_package.py", "json", both),
        ("litellm", "litellm_package.py", "chat", both),
        ("litellm", "litellm_package.py", "messages", relay),
        ("llm", "llm_package.py", "chat", both),
        ("ai-sdk", "ai_sdk.mjs", "chat", both),
        ("ai-sdk", "ai_sdk.mjs", "responses", both),
        ("ai-sdk", "ai_sdk.mjs", "messages", relay),
    )
    return tuple(Client(name, name, program, surface, routes) for name, program, surface, routes in rows)


CLIENTS = _clients()


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one client on one route: a word for each task, and what crossed that may not."""

    client: Client
    route: str
    cells: Mapping[str, str]
    crossed: tuple[str, ...]
    printed: str

    @property
    def is_ok(self) -> bool:
        """Whether every cell is as it should be."""
        return not self.crossed and set(self.cells.values()) <= {"ok", "-"}


async def row_of(client: Client, route: str, options: argparse.Namespace) -> Row:
    """Run one client's program against one route."""
    base = Path(tempfile.mkdtemp(prefix="clients-"))
    (base / "work").mkdir()
    surface_wire = WIRES[client.surface]
    wire = options.wire or surface_wire
    model = TaskModel(command="sleep 2; echo x >> done.txt")
    upstream, downstream = Recorder(), Recorder()
    try:
        async with AsyncExitStack() as opened:
            chaos = await opened.enter_async_context(ChaosServer(choose=model))
            port = int(chaos.url.rpartition(":")[2])
            above = await opened.enter_async_context(upstream.before(port))
            url = above if wire == "anthropic" else f"{above}/v1"
            config = CONFIG.format(base=base, key=KEY, wire=wire)
            config += TARGET.format(wire=wire, url=url, key=UPSTREAM_KEY)
            served = await opened.enter_async_context(holdfast(config, base))
            url = await opened.enter_async_context(downstream.before(served))
            scene = {
                "url": url,
                "key": KEY,
                "model": "holdfast" if route == "agent" else RELAYED[surface_wire],
                "surface": client.surface,
                "tasks": options.tasks,
                "limit_s": TASK_S,
            }
            printed, results = await _results(client, scene, base, options)
        if options.record and route == "relay":
            names = {KEY: "KEY", str(base): "/home/you"}
            written(options.record, f"{client.name}-{client.surface}", downstream.requests(), names)
        cells = {task: _cell(client, task, results) for task in options.tasks}
        if route == "agent" and cells.get("timeout") == "ok":
            cells["timeout"] = _done_once(base / "work" / "done.txt")
        crossed = _crossed(downstream, upstream)
        if route == "relay" and wire == surface_wire:
            crossed += _changed(PATHS[wire], downstream, upstream)
        return Row(client, route, cells, tuple(crossed), printed)
    finally:
        shutil.rmtree(base, ignore_errors=True)


async def _results(
    client: Client, scene: Mapping[str, Any], home: Path, options: argparse.Namespace
) -> tuple[str, dict[str, Any]]:
    """What the program printed besides its results, and its results by task."""
    folder = folder_of(options.cache, client.environment)
    if client.program.endswith(".py"):
        command = [str(folder / "bin" / "python"), str(PROGRAMS / client.program)]
    else:
        for script in PROGRAMS.glob("*.mjs"):  # Node looks for packages beside the script
            shutil.copy(script, folder)
        command = [str(NODE), str(folder / client.program)]
    process = await asyncio.create_subprocess_exec(
        *command,
        json.dumps(scene),
        cwd=home,
        env={"PATH": search_path(), "HOME": str(home), "HTTPS_PROXY": "http://127.0.0.1:9"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(TASK_S * len(options.tasks)):
            printed, complaints = await process.communicate()
    except TimeoutError:
        os.killpg(process.pid, signal.SIGKILL)
        printed, complaints = await process.communicate()
    lines = [line for line in printed.decode().splitlines() if line.startswith('{"task"')]
    found = [json.loads(line) for line in lines]
    return complaints.decode(errors="replace"), {one["task"]: one["result"] for one in found}


def _cell(client: Client, task: str, results: Mapping[str, Any]) -> str:
    if task not in results:
        return "the program ended before"
    got = results[task]
    if got is None:
        return "-"
    expected = EXPECTED[task]
    if task == "errors":
        expected = {**expected, **OWN_ERRORS.get((client.name, client.surface), {})}
        if client.surface == "messages":  # every name goes to the first target
            expected["unknown model"] = got.get("unknown model")
    if got == expected:
        return "ok"
    if "raised" in got or got.keys() != expected.keys():
        return str(got.get("raised", got))
    return "; ".join(
        f"{name}: {got[name]!r} instead of {value!r}"
        for name, value in expected.items()
        if got[name] != value
    )


def _done_once(file: Path) -> str:
    times = len(file.read_text().splitlines()) if file.exists() else 0
    return "ok" if times == 1 else f"the command ran {times} times"


def _crossed(downstream: Recorder, upstream: Recorder) -> list[str]:
    """The keys that passed to where they don't belong."""
    found: list[str] = []
    if KEY.encode() in upstream.sent():
        found.append("the client's key went upstream")
    if UPSTREAM_KEY.encode() in downstream.received():
        found.append("the upstream key reached the client")
    return found


def _changed(path: str, downstream: Recorder, upstream: Recorder) -> list[str]:
    """The relayed requests that did not arrive as they were sent."""
    sent = [request.body for request in downstream.requests() if request.body]
    return [
        f"the body of {request.path} arrived changed"
        for request in upstream.requests()
        if not request.path.startswith(path)
        or not any(is_same_but_for_the_model(body, request.body) for body in sent)
    ]


def _printed(row: Row, tasks: Sequence[str]) -> None:
    marks = ["ok" if cell == "ok" else "-" if cell == "-" else "FAILED" for cell in row.cells.values()]
    bytes_mark = "FAILED" if row.crossed else "ok"
    print(f"| {row.client.label} | {row.route} | {' | '.join([*marks, bytes_mark])} |", flush=True)
    for task in tasks:
        if row.cells[task] not in {"ok", "-"}:
            print(f"    {task}: {row.cells[task]}", flush=True)
    for line in row.crossed:
        print(f"    bytes: {line}", flush=True)


async def main(options: argparse.Namespace) -> int:
    """Try every client, and print a table."""
    options.tasks = named(options.tasks, TASKS)
    options.cache = options.cache.resolve()
    names = named(options.only, list(dict.fromkeys(client.name for client in CLIENTS)))
    chosen = [client for client in CLIENTS if client.name in names]
    routes = named(options.routes, ("agent", "relay"))
    for name in dict.fromkeys(client.environment for client in chosen):
        await install(options.cache, name)
    print("\n".join(ENVIRONMENTS[name].versions for name in names))
    print("\n| client | route | " + " | ".join([*options.tasks, "bytes"]) + " |")
    print("| --- " * (len(options.tasks) + 3) + "|")
    failed = 0
    for client in chosen:
        for route in [route for route in client.routes if route in routes]:
            row = await row_of(client, route, options)
            _printed(row, options.tasks)
            failed += not row.is_ok
            if options.verbose and row.printed:
                print("\n".join(f"    {line}" for line in row.printed.splitlines()[-40:]), flush=True)
    print(f"\n{failed} failed" if failed else "\nall ok")
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, required=True, help="where the clients are installed")
    parser.add_argument("--only", default="", help="clients, separated by commas")
    parser.add_argument("--tasks", default="", help="tasks, separated by commas")
    parser.add_argument("--routes", default="", help="agent, relay or both")
    parser.add_argument(
        "--wire", choices=list(PATHS), help="a model on this wire, instead of the client's own"
    )
    parser.add_argument("--record", type=Path, help="where requests are written, for tests")
    parser.add_argument("--verbose", action="store_true")
    raise SystemExit(asyncio.run(main(parser.parse_args())))
