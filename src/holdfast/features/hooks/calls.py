"""Calls one hook: JSON in, JSON out, within its deadline, and decides what its answer means."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.files import own_config_home
from holdfast.features.hooks.events import HookVerdict
from holdfast.features.hooks.hooks import Hook
from holdfast.tools.offload import offload
from holdfast.tools.shell.marker import Marker
from holdfast.tools.shell.process import Command, ProcessEnd, run_command
from holdfast.tools.shell.tool import Shell

ANSWER_BYTES_MAX = 64 * 1024
CONTEXT_CHARS_MAX = 10_000
REASON_CHARS_MAX = 2_000
ERRORS_BYTES_MAX = 4_096
_NO_SANDBOX = "it comes from the workspace, so it needs the sandbox, and there is none here"


class HookAnswer(Struct, forbid_unknown_fields=True):
    """The JSON object that a hook prints; no output at all is an empty one."""

    deny: str | None = None  # why the tool call or the run is denied
    context: str = ""  # for the model


class _Output:
    """A hook's output, up to a limit; a sink of the thread that reads it."""

    def __init__(self) -> None:
        self.data = bytearray()

    def take(self, data: bytes) -> bool:
        self.data += data
        return len(self.data) > ANSWER_BYTES_MAX


class _Errors:
    """The end of a hook's error output, read on the event loop."""

    def __init__(self) -> None:
        self._read_fd, self.write_fd = os.pipe()
        os.set_blocking(self._read_fd, False)
        self._data = b""
        asyncio.get_running_loop().add_reader(self._read_fd, self._read)

    def _read(self) -> None:
        try:
            self._data = (self._data + os.read(self._read_fd, 65_536))[-ERRORS_BYTES_MAX:]
        except BlockingIOError:
            return

    def close(self) -> str:
        """Stop reading, and return the last line."""
        asyncio.get_running_loop().remove_reader(self._read_fd)
        self._read()
        os.close(self._read_fd)
        os.close(self.write_fd)
        lines = self._data.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:REASON_CHARS_MAX] if lines else ""


async def call_hook(
    hook: Hook,
    given: Mapping[str, Any],
    *,
    shell: Shell,
    workspace: Path,
    marker: Marker,
    limit_s: float | None = None,
) -> HookVerdict:
    """Run the hook's program to its end. A cancellation is raised when all of its processes are dead."""
    patience_s = min(hook.settings.deadline_s, limit_s or hook.settings.deadline_s)
    errors, output = _Errors(), _Output()
    said = ""
    try:
        command = Command(
            argv=hook.settings.command,
            cwd=str(workspace),
            environment={},
            stdin=msgspec.json.encode(given),
            errors_fd=errors.write_fd,
        )
        run = await offload(lambda: _program(command, hook, shell=shell, workspace=workspace))
        if run is None:
            return HookVerdict("failed", _NO_SANDBOX)
        await run.open()
        try:
            ended = await run_command(run.command, output, marker=marker, patience_s=patience_s)
        finally:
            await run.close()
    finally:
        said = errors.close()
    return verdict_of(ended, bytes(output.data), said=said, patience_s=patience_s)


def _program(command: Command, hook: Hook, *, shell: Shell, workspace: Path) -> Any:
    """The user's hooks start where a name of a file is never one of the workspace."""
    if not hook.is_workspace:
        home = own_config_home()
        program = os.path.expanduser(command.argv[0])  # noqa: PTH111  # it's a name on the PATH, too
        cwd = str(home if home.is_dir() else Path.home())
        command = replace(command, argv=(program, *command.argv[1:]), cwd=cwd)
    return shell.program(command, workspace, in_sandbox=hook.is_workspace)


def verdict_of(ended: ProcessEnd, output: bytes, *, said: str, patience_s: float) -> HookVerdict:
    """Decide what the end of a hook's program means."""
    if ended.why == "deadline":
        return HookVerdict("late", f"it didn't end within {patience_s:g} s")
    if ended.why == "enough" or len(output) > ANSWER_BYTES_MAX:
        return HookVerdict("garbled", f"it printed more than {ANSWER_BYTES_MAX // 1024} kB")
    if ended.why == "not_started":
        return HookVerdict("failed", f"it couldn't be started: {ended.error}"[:REASON_CHARS_MAX])
    if ended.why != "exited" or ended.code != 0:
        how = "the sandbox failed" if ended.why == "sandbox_failed" else _exit_text(ended.code)
        return HookVerdict("failed", f"{how}: {said}" if said else how)
    try:
        answer = msgspec.json.decode(output, type=HookAnswer) if output.strip() else HookAnswer()
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        return HookVerdict("garbled", f"it printed no valid answer: {error}"[:REASON_CHARS_MAX])
    context = answer.context.strip()
    if len(context) > CONTEXT_CHARS_MAX:
        context = (
            f"{context[:CONTEXT_CHARS_MAX]}\n[… {len(context) - CONTEXT_CHARS_MAX:,} characters omitted]"
        )
    if answer.deny is not None:
        return HookVerdict("denied", answer.deny.strip()[:REASON_CHARS_MAX] or "no reason given", context)
    return HookVerdict("finished", context=context)


def _exit_text(code: int | None) -> str:
    if code is None:
        return "its exit code is unknown"
    return f"exit code {code}" if code >= 0 else f"it was killed by signal {-code}"
