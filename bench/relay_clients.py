"""Real programs through the relay and direct, against a model server that stalls, drops and refuses.

    python bench/relay_clients.py --cache ~/.cache/holdfast-clients [--only claude,aider] [--fault 529]

Claude Code, Codex, opencode and aider are installed into the cache folder, at the versions that
client_environments.py pins. Each edits a file with its own tools, once for each fault: through Holdfast, and
at the same time straight to the same model server, where it is given up after a minute. A line says how both
went. Bytes on both sides of Holdfast are recorded: a request must arrive as it was sent but for the model's
name, and no key may cross. With `--record FILE`, each program's requests are added to it, shortened and
without keys and paths. Only loopback addresses are contacted. The exit status is 1 if a relayed program
failed.
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from client_environments import ENVIRONMENTS, install, named, program, search_path
from client_scene import RawRequest, Recorder, holdfast, is_same_but_for_the_model
from holdfast.chaos import (
    CallTool,
    ChaosServer,
    Drop,
    Hang,
    Say,
    SeenRequest,
    Step,
    overloaded,
    rate_limited_s,
)
from recorded_requests import written

RELAYED_S = 150.0
DIRECT_S = 60.0
KEY = "relay-bench-key-0123456789"
UPSTREAM_KEY = "upstream-key-0123456789"
TEXT = "edited through the relay"
FAULTS: Mapping[str, tuple[list[Step], ...]] = {
    "none": (),
    "stalled first byte": ([Hang()],),
    "drop before the first byte": ([Drop()],),
    "529": ([overloaded(529)],),
    "429 with a wait": ([rate_limited_s(2)],),
    "drop after the first byte": ([Say("I will"), Drop()],),
}
CONFIG = """\
[server]
port = 0
data_dir = "{data}"
api_keys = ["{key}"]

[relay.models]
"claude-*" = "anthropic"
"gpt-*" = "{gpt}"
{targets}
"""
TARGET = """
[[targets]]
name = "{name}"
wire = "{wire}"
base_url = "{url}"
model = "{name}-model"
api_key = "{key}"
[targets.patience]
first_event_s = 2
strict = true
[targets.retry]
backoff_base_s = 0.1
"""


@dataclass(frozen=True, slots=True)
class RealClient:
    """A program: how it is called at an address, and which wire it speaks."""

    name: str
    environment_name: str
    wire: str
    command: Callable[["Place"], Sequence[str]]
    environment: Callable[["Place"], Mapping[str, str]]
    files: Callable[["Place"], Mapping[str, str]] = lambda _: {}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a program runs, and which address it is given."""

    url: str
    key: str
    home: Path
    work: Path
    clients: Path

    def bin(self, name: str) -> str:
        """A program that was installed."""
        return program(self.clients, name, name)


def _claude(at: Place) -> Sequence[str]:
    return (at.bin("claude"), "-p", "Write the file.", "--allowedTools", "Write", "--model", "claude-relay-1")


def _codex(at: Place) -> Sequence[str]:
    flags = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-C", str(at.work))
    return (at.bin("codex"), "exec", *flags, "Write the file.")


CODEX_CUSTOM = """\
model = "gpt-relay-1"
model_provider = "relay"
[model_providers.relay]
name = "relay"
base_url = "{url}/v1"
env_key = "RELAY_KEY"
wire_api = "responses"
"""
CODEX_BUILT_IN = 'model = "gpt-relay-1"\nopenai_base_url = "{url}/v1"\n'


def _codex_files(text: str) -> Callable[[Place], Mapping[str, str]]:
    def files(at: Place) -> Mapping[str, str]:
        login = json.dumps({"OPENAI_API_KEY": at.key})
        return {".codex/config.toml": text.format(url=at.url), ".codex/auth.json": login}

    return files


def _opencode_files(at: Place) -> Mapping[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "relay",
        "options": {"baseURL": f"{at.url}/v1", "apiKey": at.key},
        "models": {"gpt-relay-1": {"name": "gpt-relay-1"}},
    }
    config = {"provider": {"relay": provider}, "permission": {"edit": "allow"}, "autoupdate": False}
    return {".config/opencode/opencode.json": json.dumps(config)}


def _aider(at: Place) -> Sequence[str]:
    return (
        at.bin("aider"),
        *("--model", "openai/gpt-relay-1", "--openai-api-base", f"{at.url}/v1", "--openai-api-key", at.key),
        *("--yes-always", "--no-git", "--no-check-update", "--no-show-model-warnings", "--analytics-disable"),
        *("--edit-format", "whole", "--no-pretty", "--message", "Write the file.", "hello.txt"),
    )


CLIENTS = (
    RealClient(
        "claude",
        "claude",
        "anthropic",
        _claude,
        lambda at: {"ANTHROPIC_BASE_URL": at.url, "ANTHROPIC_API_KEY": at.key, "IS_SANDBOX": "1"},
    ),
    RealClient(
        "codex", "codex", "responses", _codex, lambda at: {"RELAY_KEY": at.key}, _codex_files(CODEX_CUSTOM)
    ),
    RealClient(
        "codex-built-in",
        "codex",
        "responses",
        _codex,
        lambda at: {"OPENAI_API_KEY": at.key},
        _codex_files(CODEX_BUILT_IN),
    ),
    RealClient(
        "opencode",
        "opencode",
        "chat",
        lambda at: (at.bin("opencode"), "run", "--model", "relay/gpt-relay-1", "Write the file."),
        lambda _: {},
        _opencode_files,
    ),
    RealClient("aider", "aider", "chat", _aider, lambda _: {}),
)


@dataclass(slots=True)
class ScriptedModel:
    """Calls the client's own tool for writing a file, and says that it is done once it has a result."""

    work: Path
    faults: list[list[Step]] = field(default_factory=list[list[Step]])
    requests: list[SeenRequest] = field(default_factory=list[SeenRequest])

    def __call__(self, request: SeenRequest) -> Sequence[Step]:
        """The answer to one request; the first that offers tools meets the faults."""
        self.requests.append(request)
        body: dict[str, Any] = dict(request.body or {})
        text = json.dumps(body)
        names = tool_names(text)
        if not names and "hello.txt" not in text:
            return [Say("A title")]  # side requests: titles, topics, checks
        if self.faults:
            return self.faults.pop(0)
        if self.has_result(text):
            return [Say("Done.")]
        return self.edit(names)

    def has_result(self, text: str) -> bool:
        """Whether the client has run its tool."""
        marks = ('"tool_result"', '"function_call_output"', '"role": "tool"', '"custom_tool_call_output"')
        return any(mark in text for mark in marks)

    def edit(self, names: set[str]) -> Sequence[Step]:
        """A call of the tool that this client has for it."""
        path = str(self.work / "hello.txt")
        shell = f"printf %s '{TEXT}' > {path}"
        if "Write" in names:
            return [CallTool("Write", {"file_path": path, "content": TEXT})]
        if "exec_command" in names:
            return [CallTool("exec_command", {"cmd": shell})]
        if "shell_command" in names:
            return [CallTool("shell_command", {"command": shell})]
        if "shell" in names:
            return [CallTool("shell", {"command": ["bash", "-lc", shell]})]
        if "apply_patch" in names:
            patch = f"*** Begin Patch\n*** Add File: hello.txt\n+{TEXT}\n*** End Patch"
            return [CallTool("apply_patch", {"patchText": patch})]
        if "write" in names:
            return [CallTool("write", {"filePath": path, "content": TEXT})]
        return [Say(f"hello.txt\n```\n{TEXT}\n```\n")]


def tool_names(text: str) -> set[str]:
    """The tools that a request offers, wherever it puts them."""
    known = ("Write", "exec_command", "shell_command", "shell", "write", "apply_patch")
    return {name for name in known if f'"name": "{name}"' in text}


async def run_client(client: RealClient, at: Place, limit_s: float) -> tuple[int | None, str]:
    """Run the program; returns its exit status, None if it was still waiting, and what it printed."""
    for name, text in client.files(at).items():
        (at.home / name).parent.mkdir(parents=True, exist_ok=True)
        (at.home / name).write_text(text)
    environment = {
        "PATH": search_path(),
        "HOME": str(at.home),
        "CODEX_HOME": str(at.home / ".codex"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "HTTPS_PROXY": "http://127.0.0.1:9",  # the discard port, where nobody listens
        "NO_PROXY": "127.0.0.1,localhost",
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        **client.environment(at),
    }
    process = await asyncio.create_subprocess_exec(
        *client.command(at),
        cwd=at.work,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(limit_s):
            printed, _ = await process.communicate()
    except TimeoutError:
        os.killpg(process.pid, 9)
        await process.wait()
        return None, ""
    return process.returncode or 0, printed.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Tried:
    """How a program fared with one fault."""

    edited: bool
    status: int | None
    took_s: float
    requests: int
    unstreamed: int
    printed: str
    differences: tuple[str, ...] = ()

    @property
    def is_ok(self) -> bool:
        """Whether the file was edited, the program ended well, and nothing leaked or changed on the way."""
        return self.edited and self.status == 0 and not self.differences

    def __str__(self) -> str:
        """One cell of the table."""
        if self.status is None:
            return f"still waiting after {self.took_s:.0f} s"
        sent = f"{self.requests} requests" + (f", {self.unstreamed} unstreamed" if self.unstreamed else "")
        said = "edited" if self.edited else "NOT edited"
        failed = f", exit {self.status}" if self.status else ""
        return f"{said} in {self.took_s:.1f} s ({sent}{failed})"


async def try_client(client: RealClient, fault: str, options: argparse.Namespace, *, relayed: bool) -> Tried:
    """One program and one fault, through Holdfast or without it."""
    base = Path(tempfile.mkdtemp(prefix="relay-"))
    home, work = base / "home", base / "work"
    home.mkdir()
    work.mkdir()
    model = ScriptedModel(work, [list(steps) for steps in FAULTS[fault]])
    upstream, downstream = Recorder(), Recorder()
    try:
        async with AsyncExitStack() as opened:
            chaos = await opened.enter_async_context(ChaosServer(choose=model))
            port = int(chaos.url.rpartition(":")[2])
            url = await opened.enter_async_context(upstream.before(port))
            if relayed:
                served = await opened.enter_async_context(holdfast(_config(client, url, base), home))
                url = await opened.enter_async_context(downstream.before(served))
            began_s = time.monotonic()
            at = Place(url, KEY, home, work, options.cache)
            status, printed = await run_client(client, at, RELAYED_S if relayed else DIRECT_S)
            took_s = time.monotonic() - began_s
        if relayed and options.record:
            names = {str(base): "/home/you", base.name: "you", KEY: "KEY"}
            written(options.record, *_to_record(client, fault, downstream), names)
        file = work / "hello.txt"
        return Tried(
            edited=file.exists() and file.read_text().strip() == TEXT,
            status=status,
            took_s=took_s,
            requests=len(model.requests),
            unstreamed=sum(not request.wants_stream for request in model.requests),
            printed=printed,
            differences=tuple(crossed(downstream, upstream)) if relayed else (),
        )
    finally:
        shutil.rmtree(base, ignore_errors=True)


def _to_record(client: RealClient, fault: str, downstream: Recorder) -> tuple[str, list[RawRequest]]:
    """What is worth keeping: requests without a fault, and those that are sent again without `stream`."""
    if fault == "none":
        return client.name, downstream.requests()
    asked = [request for request in downstream.requests() if request.path.startswith("/v1/messages?")]
    return f"{client.name}-unstreamed", [one for one in asked if not json.loads(one.body).get("stream")]


def _config(client: RealClient, url: str, base: Path) -> str:
    wires = {"anthropic": url, "responses": f"{url}/v1", "chat": f"{url}/v1"}
    targets = [TARGET.format(name=wire, wire=wire, url=at, key=UPSTREAM_KEY) for wire, at in wires.items()]
    return CONFIG.format(data=base / "data", key=KEY, gpt=client.wire, targets="".join(targets))


def crossed(downstream: Recorder, upstream: Recorder) -> list[str]:
    """What passed that may not, or changed on its way: keys, and the bytes of bodies."""
    found: list[str] = []
    if KEY.encode() in upstream.sent():
        found.append("the client's key went upstream")
    if UPSTREAM_KEY.encode() in downstream.received():
        found.append("the upstream key reached the client")
    sent = [request.body for request in downstream.requests() if request.body]
    found += [
        f"the body of {request.path} arrived changed"
        for request in upstream.requests()
        if not any(is_same_but_for_the_model(body, request.body) for body in sent)
    ]
    return found


def version_of(client: RealClient) -> str:
    """The pinned version of a program."""
    return re.sub(r".*[@=]", "", ENVIRONMENTS[client.environment_name].pins[0])


async def main(options: argparse.Namespace) -> int:
    """Try every program with every fault, and print a line for each."""
    names = named(options.only, [client.name for client in CLIENTS])
    chosen = [client for client in CLIENTS if client.name in names]
    for client in chosen:
        await install(options.cache, client.environment_name)
    failed = 0
    print("| program | fault | through Holdfast | direct |\n| --- | --- | --- | --- |")
    for client in chosen:
        for fault in FAULTS if not options.fault else (options.fault,):
            relayed, direct = await asyncio.gather(
                try_client(client, fault, options, relayed=True),
                try_client(client, fault, options, relayed=False),
            )
            print(f"| {client.name} {version_of(client)} | {fault} | {relayed} | {direct} |", flush=True)
            if not relayed.is_ok:
                failed += 1
                print("\n".join(f"    {line}" for line in relayed.differences), flush=True)
            if not relayed.is_ok or options.verbose:
                print("\n".join(f"    {line}" for line in relayed.printed.splitlines()[-8:]), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cache", type=Path, required=True, help="where the clients are installed")
    parser.add_argument("--only", default="", help="programs, separated by commas")
    parser.add_argument("--fault", choices=list(FAULTS))
    parser.add_argument("--record", type=Path, help="where requests are written, for tests")
    parser.add_argument("--verbose", action="store_true")
    raise SystemExit(asyncio.run(main(parser.parse_args())))
