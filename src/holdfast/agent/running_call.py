"""One call of a tool while it runs: what its tool can say and ask, and how long it may take."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from holdfast import events as e
from holdfast.agent.asks import Asks
from holdfast.agent.runlog import RunLog
from holdfast.folds.run import AskStatus
from holdfast.interfaces.journal import Blobs
from holdfast.interfaces.tool import NobodyAnswered, ToolResult
from holdfast.redaction import StreamFilter
from holdfast.sandbox.confinement import Confinement
from holdfast.tools.ask import AskUserArgs

OUTPUT_CHARS_MAX = 256 * 1024
STOPPED = "Stopped while it ran; whether it took effect is unknown."
NOT_STARTED = "Not run: the run was stopped first."
NOBODY = "No one can answer, because this run is unattended."


class RunningCall(Struct):
    """One tool call as its tool sees it; implements interfaces.tool.ToolCall."""

    session_id: str
    run_id: str
    tool_call_id: str
    effect_key: str
    workspace: Path
    blobs: Blobs
    log: RunLog
    stream_filter: StreamFilter
    people: Asks
    deadline: asyncio.Timeout
    approved: str = ""
    judged_paths: tuple[str, ...] = ()
    confinement: Confinement | None = None
    shown_chars: int = 0
    asks_open: int = 0
    left_s: float = 0.0  # of the tool's patience, while it rests
    asked_s: float = 0.0  # how long people were asked
    is_over: bool = False
    unattended: bool = False
    api_key: str = ""

    async def say(self, text: str, *, stream: Literal["stdout", "stderr", "progress"] = "stdout") -> None:
        """Show output while the tool runs; waits while the journal is behind."""
        self._show(self.stream_filter.feed(text), stream)
        await self.log.room()

    async def ask(self, text: str, choices: tuple[str, ...]) -> str:
        """Ask a person and wait for the answer, while the tool's patience rests; raises NobodyAnswered."""
        asked = msgspec.convert({"text": text, "choices": choices}, AskUserArgs)
        if self.is_over:
            raise NobodyAnswered("The tool call has ended, so the question wasn't asked.")
        if self.unattended:
            raise NobodyAnswered(NOBODY)
        with self.resting():
            return answer_to(await self.people.question(self.tool_call_id, asked))

    @contextmanager
    def resting(self) -> Generator[None]:
        """Let the tool's patience rest, because the call waits for somebody else."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        if not self.asks_open:
            self.left_s = (self.deadline.when() or began_s) - began_s
            self.deadline.reschedule(None)
        self.asks_open += 1
        try:
            yield
        finally:
            self.asks_open -= 1
            if not self.asks_open and not self.is_over:
                self.deadline.reschedule(loop.time() + self.left_s)
                self.asked_s += loop.time() - began_s

    def end(self) -> None:
        """Show what the filter held back; a task that the tool left behind can't ask any more."""
        self.is_over = True
        self._show(self.stream_filter.flush(), "stdout")

    def _show(self, text: str, stream: Literal["stdout", "stderr", "progress"]) -> None:
        shown = text[: OUTPUT_CHARS_MAX - self.shown_chars]
        if not shown:
            return
        self.shown_chars += len(shown)
        self.log.emit(
            e.ToolOutput(
                at_ms=self.log.now_ms(),
                run_id=self.run_id,
                tool_call_id=self.tool_call_id,
                text=shown,
                stream=stream,
            )
        )


def answer_to(ask: AskStatus) -> str:
    """Return the person's answer; raises NobodyAnswered."""
    if ask.state != "answered":
        raise NobodyAnswered("No one answered in time.")
    if ask.reason:
        raise NobodyAnswered(f"This wasn't answered: {ask.reason}", ending="denied")
    return ask.answer


def stopped(*, begun: bool) -> ToolResult:
    """The result of a tool call that a stop interrupted or kept from starting."""
    if begun:
        return ToolResult(STOPPED, ok=False, ending="killed")
    return ToolResult(NOT_STARTED, ok=False, ending="not_started")
