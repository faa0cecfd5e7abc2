"""Small real tasks with checks, for any model target; without one, scripted answers prove the harness alone.

python bench/tasks.py [--model NAME] [--config FILE] [--only TASK] [--patience-s 600]

Each file in bench/tasks/ is a task: files, prompt, check, and a script that solves it. Without `--model`, a
model server on loopback answers with the script. With it, the target of that name in your holdfast.toml does
the task. Workspaces and the data directory are temporary, and approvals are answered as the task says.

For each task it prints whether it passed, the model calls and tokens that it took, the bytes of prompt and
declarations that each call began with, and what changed that beginning. One round says nothing about quality.
"""

import argparse
import asyncio
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say, Script, SeenRequest, context_overflow
from holdfast.config.load import Loaded, load, read_environment
from holdfast.folds import session, transcript
from holdfast.host.assembly import open_parts
from holdfast.host.runtime import Runner, open_runner
from holdfast.interfaces.journal import Record
from holdfast.messages import ToolSpec
from holdfast.runner.asks import Answered, ApprovalVerdict
from holdfast.runner.inbox import IncomingMessage, Sent
from holdfast.values import ApprovalMode, Choice, RunSettings

FOLDER = Path(__file__).with_name("tasks")
CHECK_S = 60.0
SCRIPTED = "scripted"
CONFIG = """
[server]
data_dir = "{folder}/data"
api_keys = []
[agent]
title_target = "off"
workspace = "{folder}"
[[targets]]
name = "scripted"
wire = "chat"
base_url = "{url}"
model = "scripted"
context_window = 60000
"""


class Task(Struct, frozen=True, forbid_unknown_fields=True):
    """A task: what the agent finds and is asked, and what must be true afterwards."""

    prompt: str
    script: list[dict[str, Any]]  # what a model that solves it answers
    files: dict[str, str] = {}
    earlier: tuple[str, ...] = ()  # messages before it in the session, each answered by a step of the script
    mode: ApprovalMode = "workspace"
    approve: Choice = "once"
    check: str = ""  # a shell command in the workspace that succeeds
    answer: str = ""  # a regular expression that is found in the last answer
    called: tuple[str, ...] = ()  # tools of which a call succeeded
    refused: tuple[str, ...] = ()  # tools of which a call was denied


class Done(Struct, frozen=True):
    """How a task went."""

    why: str = ""  # it failed; empty if it passed
    calls: int = 0
    tokens: int = 0
    overhead_bytes: int = 0
    broken: tuple[str, ...] = ()  # what changed the beginning of the requests


def tasks(only: str) -> dict[str, Task]:
    """The tasks by name."""
    found = sorted(path for path in FOLDER.glob("*.toml") if only in path.stem)
    return {path.stem: msgspec.convert(tomllib.loads(path.read_text("utf-8")), Task) for path in found}


def answer(steps: deque[dict[str, Any]], request: SeenRequest) -> Script:
    """The next step: text, calls that go out together, or a refusal for the request's length.

    `$job` stands for the background process that the request names last.
    """
    step = steps.popleft() if steps else {"say": "?"}
    if step.get("status") == "overflow":
        return [context_overflow()]
    text = msgspec.json.encode(step).decode()
    if "$job" in text:
        text = text.replace("$job", re.findall(r"job-[0-9a-f]{8}", str(request.body))[-1])
    step = msgspec.json.decode(text)
    said = [Say(step["say"])] if "say" in step else []
    return [*said, *(CallTool(name, args) for call in step.get("calls", ()) for name, args in call.items())]


async def done(runner: Runner, name: str, task: Task, *, model: str, patience_s: float) -> Done:
    """Let the agent do the task in a workspace of its own, and check what it did."""
    with tempfile.TemporaryDirectory(prefix=f"{name}-") as folder:
        work = Path(folder)
        write(work, task.files)
        log: list[Record] = []
        try:
            async with asyncio.timeout(patience_s):
                for text in (*task.earlier, task.prompt):
                    settings = RunSettings(workspace=folder, model="" if model == SCRIPTED else model)
                    message = IncomingMessage(text=text, settings=settings, permission_mode=task.mode)
                    sent = await runner.inbox.send(name, message)
                    assert isinstance(sent, Sent), sent
                    log = await followed(runner, name, sent.run_id, task.approve)
        except TimeoutError:
            return Done(f"not finished after {patience_s:g} s")
        known = {one.spec.name: one.spec for one in runner.supervisor.deps.tools_now().all()}
        return await asyncio.to_thread(judged, task, log, work, known)


def write(work: Path, files: Mapping[str, str]) -> None:
    """Write the task's files."""
    for path, text in files.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_text(text, encoding="utf-8")


async def followed(runner: Runner, session_id: str, run_id: str, choice: Choice) -> list[Record]:
    """The log up to the end of the run; approvals are answered meanwhile."""
    log: list[Record] = []
    async for records in runner.store.follow(session_id, after=0):
        log += records
        for event in [record.event for record in records]:
            if isinstance(event, e.ApprovalAsked) and event.run_id == run_id:
                answered = await runner.inbox.answer(event.approval_id, ApprovalVerdict(choice))
                assert isinstance(answered, Answered), answered
            if isinstance(event, e.RunEnded) and event.run_id == run_id:
                return log
    raise AssertionError("a log can be followed without end")


def judged(task: Task, log: Sequence[Record], work: Path, known: Mapping[str, ToolSpec]) -> Done:
    """What the run took, and whether the task is done."""
    events = [record.event for record in log]
    folded = session.fold((record.seq, record.event) for record in log)
    set_ = [event for event in events if isinstance(event, e.ContextSet)]
    used = [run.usage for run in folded.runs.values()]
    declared = [known[name].declared_bytes for event in set_[:1] for name in event.tools if name in known]
    overhead = sum(declared) + sum(len(event.instructions.encode()) for event in set_[:1])
    return Done(
        "; ".join(failures(task, events, log, work)),
        calls=sum(isinstance(event, e.CallStarted) for event in events),
        tokens=sum(one.input_tokens + one.output_tokens for one in used),
        overhead_bytes=overhead,
        broken=tuple(event.reason for event in set_[1:]),
    )


def failures(task: Task, events: Sequence[e.Event], log: Sequence[Record], work: Path) -> Iterator[str]:
    """Everything that isn't as it must be."""
    ended = [event for event in events if isinstance(event, e.RunEnded)][-1]
    if ended.outcome != "completed":
        yield f"the run ended as {ended.outcome}"
    said = transcript.output(transcript.fold((one.seq, one.event) for one in log), ended.run_id)
    if not re.search(task.answer, said, re.IGNORECASE | re.DOTALL):
        yield f"the answer doesn't match {task.answer!r}: {said[:200]!r}"
    names = {event.tool_call_id: event.name for event in events if isinstance(event, e.ToolAsked)}
    ends = [event for event in events if isinstance(event, e.ToolEnded)]
    succeeded = {names[event.tool_call_id] for event in ends if event.ok}
    denied = {names[event.tool_call_id] for event in ends if event.ending == "denied"}
    yield from (f"no call of {name} succeeded" for name in task.called if name not in succeeded)
    yield from (f"no call of {name} was denied" for name in task.refused if name not in denied)
    if task.check:
        try:
            command = ("sh", "-c", f"export PYTHONDONTWRITEBYTECODE=1; {task.check}")
            found = subprocess.run(
                command, check=False, cwd=work, capture_output=True, text=True, timeout=CHECK_S
            )
        except subprocess.TimeoutExpired:
            yield "the check took too long"
        else:
            if found.returncode:
                yield f"the check failed: {(found.stderr or found.stdout)[-300:]}"


@contextmanager
def configured(options: argparse.Namespace, url: str) -> Generator[Loaded]:
    """The configuration, with a data directory of its own."""
    with tempfile.TemporaryDirectory(prefix="holdfast-tasks-") as folder:
        file = Path(options.config) if options.config else Path(folder) / "holdfast.toml"
        if not options.model:
            file.write_text(CONFIG.format(folder=folder, url=url), encoding="utf-8")
        (Path(folder) / "data").mkdir(mode=0o700)
        flags: dict[str, object] = {"data_dir": f"{folder}/data"}
        if options.config or not options.model:
            flags["config"] = str(file)
        yield load(read_environment(flags))


async def run(options: argparse.Namespace) -> int:
    """Do all tasks in one process, one after the other; return how many failed."""
    steps: deque[dict[str, Any]] = deque()
    chosen = tasks(options.only)
    failed = 0
    async with AsyncExitStack() as stack:
        chaos = await stack.enter_async_context(ChaosServer(choose=partial(answer, steps)))
        loaded = stack.enter_context(configured(options, chaos.base_url))
        parts = await stack.enter_async_context(open_parts(loaded.settings, keys=None, config=loaded.file))
        if parts.opening is not None:
            parts.opening.begin()
            await parts.opening.wait()
        runner = await stack.enter_async_context(open_runner(parts))
        print(f"{'task':26} {'':6} {'calls':>5} {'tokens':>8} {'overhead':>9}  prefix")
        for name, task in chosen.items():
            steps.clear()
            steps.extend(task.script)
            model = options.model or SCRIPTED
            found = await done(runner, name, task, model=model, patience_s=options.patience_s)
            failed += bool(found.why)
            print(row(name, found), flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} passed")
    return failed


def row(name: str, found: Done) -> str:
    """One line of the table, and why the task failed."""
    prefix = f"changed: {', '.join(found.broken)}" if found.broken else "stable"
    state = "failed" if found.why else "passed"
    line = f"{name:26} {state:6} {found.calls:5} {found.tokens:8,} {found.overhead_bytes:9,}  {prefix}"
    return f"{line}\n    {found.why}" if found.why else line


def main() -> None:
    """Read the options, and do the tasks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--model", default="", help="a target of your configuration; default: scripted answers"
    )
    parser.add_argument("--config", default="", help="holdfast.toml; default: as `holdfast serve` finds it")
    parser.add_argument("--only", default="", help="tasks whose names contain this")
    parser.add_argument("--patience-s", type=float, default=600.0, help="for each task")
    sys.exit(1 if asyncio.run(run(parser.parse_args())) else 0)


if __name__ == "__main__":
    main()
