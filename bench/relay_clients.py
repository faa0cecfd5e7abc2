"""Real programs through the relay, against a model server that stalls, drops and refuses.

python bench/relay_clients.py CLIENTS_DIR [CLIENT …]. CLIENTS_DIR has what people install: `npm i --prefix DIR
@anthropic-ai/claude-code @openai/codex opencode-ai`; `DIR/aider` is a virtual environment with aider-chat.
Each program edits a file with its own tools, once for each fault, and a line says how that went. With
`--requests FILE`, the requests are written there, without keys and paths. With `--direct`, the programs talk
to the bad model server without Holdfast. Only loopback addresses are contacted.
"""

import argparse
import asyncio
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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

CLIENT_S = 150.0
KEY = "relay-bench-key-0123456789"
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
api_key = "upstream-key-0123456789"
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
        """A program that npm installed."""
        return str(self.clients / "node_modules" / ".bin" / name)


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
        str(at.clients / "aider" / "bin" / "aider"),
        *("--model", "openai/gpt-relay-1", "--openai-api-base", f"{at.url}/v1", "--openai-api-key", at.key),
        *("--yes-always", "--no-git", "--no-check-update", "--no-show-model-warnings", "--analytics-disable"),
        *("--edit-format", "whole", "--no-pretty", "--message", "Write the file.", "hello.txt"),
    )


CLIENTS = (
    RealClient(
        "claude",
        "anthropic",
        _claude,
        lambda at: {"ANTHROPIC_BASE_URL": at.url, "ANTHROPIC_API_KEY": at.key, "IS_SANDBOX": "1"},
    ),
    RealClient("codex", "responses", _codex, lambda at: {"RELAY_KEY": at.key}, _codex_files(CODEX_CUSTOM)),
    RealClient(
        "codex-built-in",
        "responses",
        _codex,
        lambda at: {"OPENAI_API_KEY": at.key},
        _codex_files(CODEX_BUILT_IN),
    ),
    RealClient(
        "opencode",
        "chat",
        lambda at: (at.bin("opencode"), "run", "--model", "relay/gpt-relay-1", "Write the file."),
        lambda _: {},
        _opencode_files,
    ),
    RealClient("aider", "chat", _aider, lambda _: {}),
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


@asynccontextmanager
async def holdfast(config: str, home: Path) -> AsyncGenerator[str]:
    """`holdfast serve` with this configuration; yields its address."""
    path = home / "holdfast.toml"
    path.write_text(config)
    program = Path(sys.executable).parent / "holdfast"
    process = await asyncio.create_subprocess_exec(
        program, "serve", "--config", path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            while "http://" not in (line := (await process.stdout.readline()).decode()):
                if not line:
                    raise SystemExit("holdfast serve did not start")
        url = "http://" + line.partition("http://")[2].split("/")[0].split()[0]
        draining = asyncio.create_task(process.stdout.read())
        yield url
        draining.cancel()
    finally:
        process.terminate()
        await process.wait()


async def run_client(client: RealClient, at: Place) -> tuple[int, str]:
    """Run the program; returns its exit status and what it printed."""
    for name, text in client.files(at).items():
        (at.home / name).parent.mkdir(parents=True, exist_ok=True)
        (at.home / name).write_text(text)
    environment = {
        "PATH": os.defpath + os.pathsep + str(Path(shutil.which("node") or "node").parent),
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
        async with asyncio.timeout(CLIENT_S):
            printed, _ = await process.communicate()
    except TimeoutError:
        os.killpg(process.pid, 9)
        await process.wait()
        return -1, "did not come back"
    return process.returncode or 0, printed.decode(errors="replace")


async def try_client(client: RealClient, fault: str, options: argparse.Namespace) -> list[SeenRequest]:
    """One program and one fault; prints a line."""
    base = Path(tempfile.mkdtemp(prefix="relay-"))
    home, work = base / "home", base / "work"
    home.mkdir()
    work.mkdir()
    model = ScriptedModel(work, [list(steps) for steps in FAULTS[fault]])
    try:
        async with ChaosServer(choose=model) as chaos:
            targets = [("anthropic", chaos.url), ("responses", chaos.base_url), ("chat", chaos.base_url)]
            config = CONFIG.format(
                data=base / "data",
                key=KEY,
                gpt=client.wire,
                targets="".join(TARGET.format(name=wire, wire=wire, url=url) for wire, url in targets),
            )
            began_s = time.monotonic()
            if options.direct:
                at = Place(chaos.url, KEY, home, work, options.clients)
                status, printed = await run_client(client, at)
            else:
                async with holdfast(config, home) as url:
                    began_s = time.monotonic()
                    at = Place(url, KEY, home, work, options.clients)
                    status, printed = await run_client(client, at)
        took_s = time.monotonic() - began_s
        written = work / "hello.txt"
        edited = written.exists() and written.read_text().strip() == TEXT
        print(
            f"{client.name:15} {fault:28} edited={edited!s:5} exit={status} "
            f"requests={len(model.requests)} {took_s:5.1f} s",
            flush=True,
        )
        if not edited or status or options.verbose:
            print("\n".join(f"    {line}" for line in printed.splitlines()[-8:]), flush=True)
        return model.requests
    finally:
        shutil.rmtree(base, ignore_errors=True)


def scrubbed(request: SeenRequest) -> dict[str, Any]:
    """A request as a test may keep it: no keys, no paths of this machine."""
    kept = (
        "anthropic-",
        "openai-",
        "x-stainless-",
        "x-codex-",
        "session",
        "thread",
        "originator",
        "user-agent",
    )
    headers = {name: value for name, value in request.headers.items() if name.startswith(kept)}
    return {"path": request.path, "headers": headers, "body": request.body}


async def main(options: argparse.Namespace) -> None:
    """Try every program with every fault."""
    recorded: dict[str, list[dict[str, Any]]] = {}
    for client in CLIENTS:
        if options.names and client.name not in options.names:
            continue
        for fault in FAULTS if not options.fault else (options.fault,):
            requests = await try_client(client, fault, options)
            recorded.setdefault(client.name, [scrubbed(request) for request in requests])
    if options.requests:
        options.requests.write_text(json.dumps(recorded, indent=1))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clients", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--fault", choices=list(FAULTS))
    parser.add_argument("--direct", action="store_true")
    parser.add_argument("--requests", type=Path)
    parser.add_argument("--verbose", action="store_true")
    asyncio.run(main(parser.parse_args()))
