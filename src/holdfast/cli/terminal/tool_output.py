"""Tool output: the last lines while tools run, a few when they end, and all of it on request."""

from collections import deque

from msgspec import Struct, field

from holdfast import events as e
from holdfast.cli.terminal.phrases import tool_line
from holdfast.cli.terminal.style import Style
from holdfast.safe_text import cut, safe
from holdfast.values import COMMAND_CALL

LIVE_LINES = 5
ENDED_LINES = 3
COMMAND_LINES = 40  # of a command that a person typed
EXPANDED_LINES_MAX = 200
LINES_MAX = 2_000
LINE_CHARS_MAX = 4_000
CALLS_KEPT = 20
BAR = "  │ "


class ToolCallOutput(Struct):
    """One tool call: what it is to do, and the end of what it printed."""

    words: str
    lines: deque[str] = field(default_factory=lambda: deque[str](maxlen=LINES_MAX))
    lines_seen: int = 0
    result: str = ""
    blob: str = ""  # the name of the whole output, if the result is not all of it
    is_over: bool = False
    is_cut_short: bool = False
    _last: str = ""  # a line that has not ended

    def add(self, text: str) -> None:
        """Take more of what it prints."""
        *whole, last = (self._last + text).split("\n")
        for line in whole:
            self.lines.append(_overwritten(line))
        self.lines_seen += len(whole)
        self._last = last[-LINE_CHARS_MAX:]

    def last_lines(self, count: int) -> list[str]:
        """The newest lines, also one that has not ended."""
        unended = [_overwritten(self._last)] if self._last.strip() else []
        return [*self.lines, *unended][-count:]

    @property
    def printed(self) -> int:
        """How many lines it printed."""
        return self.lines_seen + bool(self._last.strip())

    def text(self) -> str:
        """Return the known output; the result of an interrupted call lacks its printed output."""
        printed = "\n".join(self.last_lines(LINES_MAX))
        if not self.is_over:
            return safe(printed)
        return safe(f"{printed}\n\n{self.result}" if self.is_cut_short and printed else self.result)


class ToolOutputs(Struct):
    """The newest tool calls of a session, by their ids."""

    style: Style
    calls: dict[str, ToolCallOutput] = field(default_factory=dict[str, ToolCallOutput])
    is_expanded: bool = False

    def asked(self, tool_call_id: str, words: str) -> None:
        """Take a call that was just asked for; the oldest is forgotten."""
        self.calls[tool_call_id] = ToolCallOutput(words)
        while len(self.calls) > CALLS_KEPT:
            del self.calls[next(iter(self.calls))]

    def printed(self, event: e.ToolOutput) -> None:
        """Take more of what a tool prints."""
        if (call := self.calls.get(event.tool_call_id)) is not None:
            call.add(event.text)

    def ended(self, event: e.ToolEnded) -> str:
        """The line for a call that is over, with the last lines that it printed."""
        call = self.calls.get(event.tool_call_id)
        if call is None:
            return tool_line(self.style, "a tool", event)
        call.result, call.blob, call.is_over = event.result, event.blob, True
        call.is_cut_short = event.ending != "finished"
        if not call.printed:
            return tool_line(self.style, call.words, event)
        lines = COMMAND_LINES if event.tool_call_id.startswith(COMMAND_CALL) else ENDED_LINES
        hidden = call.printed - lines
        more = self.style.dim(f"  … {hidden} more lines; Ctrl-O shows them") if hidden > 0 else ""
        return (
            tool_line(self.style, call.words, event, shows_why=False)
            + more
            + self._bars(call.last_lines(lines))
        )

    def live(self) -> str:
        """The last lines of the newest call that runs and has printed something."""
        running = [call for call in self.calls.values() if not call.is_over and call.printed]
        if not running:
            return ""
        lines = running[-1].last_lines(EXPANDED_LINES_MAX if self.is_expanded else LIVE_LINES)
        return "\n" + self._bars(lines)

    @property
    def is_printing(self) -> bool:
        """Whether something is live that can be expanded."""
        return any(not call.is_over and call.printed for call in self.calls.values())

    def newest(self) -> ToolCallOutput | None:
        """The newest call that has something to show."""
        return next((call for call in reversed(self.calls.values()) if call.text().strip()), None)

    def expanded(self, call: ToolCallOutput) -> str:
        """A call with its output, as much as a person reads in place."""
        lines = call.text().splitlines()
        text = "\n" + self.style.line(call.words, "bold") + self._bars(lines[:EXPANDED_LINES_MAX])
        left = len(lines) - EXPANDED_LINES_MAX
        if left > 0 or call.blob:
            count = f"{left} more lines" if left > 0 else "more"
            text += self.style.dim(f"  … {count}; Ctrl-T shows everything")
        return text

    def _bars(self, lines: list[str]) -> str:
        width = max(10, self.style.width() - len(BAR))
        return "".join(self.style.dim(BAR + cut(safe(line).expandtabs(4), width)) for line in lines)


def _overwritten(line: str) -> str:
    """A line as it looks after carriage returns: a progress bar shows its newest state."""
    line = line.rstrip("\r")
    return line[line.rfind("\r") + 1 :][:LINE_CHARS_MAX]
