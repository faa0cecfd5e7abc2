"""A tool as the agent sees it: its traits, how it is called, and what it returns."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from holdfast.interfaces.journal import Blobs
from holdfast.messages import ToolSpec
from holdfast.values import Action, Part, SentFile, ToolEnding

if TYPE_CHECKING:
    from holdfast.sandbox.confinement import Confinement


# Where a tool works: on any machine, where the workspace's files are, or only on the machine it started on.
ToolPlace: TypeAlias = Literal["anywhere", "workspace", "node"]


class ToolTraits(Struct, frozen=True):
    """A tool's guarantees; by default none."""

    read_only: bool = False  # changes nothing: runs without approval, in parallel, and again after a crash
    idempotent: bool = False  # one effect per effect_key, so it can run again after a crash
    parallel_safe: bool = False  # can run in parallel with other calls of the same turn
    patience_s: float = 180.0  # how long one call may take
    place: ToolPlace = "node"
    failures_max: int = (
        0  # failed calls in a row of one run, after which further calls are refused; 0: no limit
    )
    unavailable: str = ""  # why calls fail now; the model gets a note, and one when it's empty again


class ToolResult(Struct, frozen=True):
    """The result of a tool call: `text` for the model and for people, `advice` for the model alone.

    `blob` names the full output if `text` was cut, `proposal` the change that waits for a person.
    """

    text: str
    ok: bool = True
    ending: ToolEnding = "finished"
    parts: tuple[Part, ...] = ()
    blob: str = ""
    sent: SentFile | None = None  # what the person in the chat gets
    advice: str = ""
    proposal: str = ""


class NobodyAnswered(Exception):
    """Raised by `ToolContext.ask`: there is no answer, and the text says why.

    A tool that doesn't catch it ends there, and the model is told.

    Example::

        from holdfast import NobodyAnswered, ToolContext

        async def colour(context: ToolContext) -> str:
            '''The colour that the user wants.'''
            try:
                return await context.ask("Which colour?", choices=("red", "blue"))
            except NobodyAnswered:
                return "red"
    """

    def __init__(self, text: str, *, ending: ToolEnding = "expired") -> None:
        super().__init__(text)
        self.ending: ToolEnding = ending


class ToolCall(Protocol):
    """One call as its tool sees it: who calls, where it may work, and where its output goes.

    `approved` is the digest of the action that a person approved for this call, or empty. A tool that can
    check and act in one step acts only if its action still has that digest. `judged_paths` are the paths that
    the action was found to lead to when it was judged; a file tool goes nowhere else. Empty means that it was
    not judged in this process, for example after a crash. `confinement` is what programs that the tool starts
    run in; None means no sandbox. `api_key` is the name of the API key that the run counts for, or empty.
    """

    session_id: str
    run_id: str
    tool_call_id: str
    effect_key: str
    api_key: str
    approved: str
    judged_paths: tuple[str, ...]
    confinement: "Confinement | None"
    workspace: Path
    blobs: Blobs

    async def say(self, text: str, *, stream: Literal["stdout", "stderr", "progress"] = "stdout") -> None:
        """Show output while the tool runs; waits while the journal is behind; drops output past a limit."""
        ...

    async def ask(self, text: str, choices: tuple[str, ...]) -> str:
        """Ask a person and wait for the answer, while the tool's patience rests; raises NobodyAnswered.

        A tool that runs again after a crash gets the answer to the same question, if there is one already.
        """
        ...


class Tool(Protocol):
    """Something that a model can do.

    - `run` is called with arguments that match the schema. Ordinary errors (no such file, exit code 1) are a
      ToolResult with ok=False, so that the model can act on them.
    - A stop or a deadline cancels the task that runs it. When `run` has ended, nothing that it started is
      still running, except deliberate background processes.
    - `action` returns exactly what `run` would do with these arguments, without doing anything.
    """

    spec: ToolSpec
    traits: ToolTraits

    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        """The action that a person is asked to approve."""
        ...

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        """Perform the action."""
        ...


@runtime_checkable
class CheckableTool(Tool, Protocol):
    """A tool that can tell beforehand that a call can't succeed, so that nobody is asked to approve it."""

    def refusal(self, args: Mapping[str, object], *, workspace: Path, paths: tuple[str, ...]) -> str:
        """Return why it can't succeed now, reading only these of its files; empty if it may. Blocks."""
        ...
