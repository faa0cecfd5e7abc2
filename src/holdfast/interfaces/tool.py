"""A tool as the agent sees it: what it promises, what it is called with, and what it returns."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from holdfast.interfaces.journal import Blobs
from holdfast.messages import ToolSpec
from holdfast.values import Action, Part, ToolEnding


@dataclass(frozen=True, slots=True)
class ToolTraits:
    """What a tool promises of itself; the default promises nothing."""

    read_only: bool = False  # changes nothing, so it may run unasked, side by side, and again after a crash
    idempotent: bool = False  # the same effect_key has one effect, so it may run again after a crash
    parallel_safe: bool = False  # may run beside other calls of the same turn
    patience_s: float = 180.0  # how long one call may take


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool call brought; `text` is for the model, `blob` names the whole where it was cut."""

    text: str
    ok: bool = True
    ending: ToolEnding = "finished"
    parts: tuple[Part, ...] = ()
    blob: str = ""


class ToolCall(Protocol):
    """One call as its tool sees it: who asks, where it may work, and where its output goes.

    `approved` is the digest of the action that a person approved for this call, or nothing; a tool that can
    look and act in one step acts only if what it would do still has that digest.
    `judged_paths` are the places that the action was found to lead to when it was judged; a tool for files
    goes nowhere else. Empty: it was not judged in this process, as after a crash.
    """

    session_id: str
    run_id: str
    tool_call_id: str
    effect_key: str
    approved: str
    judged_paths: tuple[str, ...]
    workspace: Path
    blobs: Blobs

    async def say(self, text: str, *, stream: Literal["stdout", "stderr", "progress"] = "stdout") -> None:
        """Show output while the tool runs; waits while the journal is behind; past a limit, silent."""
        ...


class Tool(Protocol):
    """Something that a model can do.

    - `run` is called with arguments that fit the schema. What goes wrong in the tool's own world (no such
      file, exit code 1) is a ToolResult with ok=False, so that the model can act on it.
    - A stop or a deadline cancels the task that runs it. When `run` has ended, nothing of it is left running
      but what was started as a background process on purpose.
    - `action` says, without doing anything, the one exact thing that `run` would do with these arguments.
    """

    spec: ToolSpec
    traits: ToolTraits

    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        """What a person is asked to approve."""
        ...

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        """Do it."""
        ...
