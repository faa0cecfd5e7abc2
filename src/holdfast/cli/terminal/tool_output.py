"""Tool output: the last lines while tools run, a few when they end, and all of it on request.

Single lines and short passages about tools, approvals, questions and endings, for a terminal.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from holdfast import events as e
from holdfast.cli.terminal.style import Style
from holdfast.folds.entries import ending_words
from holdfast.policy.tool_names import APPLY_PATCH, PATCHED, UPDATE_PLAN
from holdfast.safe_text import cut, exact, safe, safe_line
from holdfast.values import COMMAND_CALL, Choice, GrantOffer, Width

ARGS_CHARS_MAX = 300
RESULT_CHARS_MAX = 160


def seconds(ms: float) -> str:
    """A duration as people say it."""
    if ms < 10_000:  # noqa: PLR2004  # below ten seconds a tenth tells
        return f"{ms / 1000:.1f} s"
    total = round(ms / 1000)
    return f"{total} s" if total < 60 else f"{total // 60} min {total % 60} s"  # noqa: PLR2004


def switch_words(switched: e.TargetSwitched) -> str:
    """That another target than the chosen one answers, and why."""
    return f"answered by {switched.to_target}, because {switched.why}"


def redone_words(files: int, runs: int) -> str:
    """Describe what a redo restored."""
    what = "1 file" if files == 1 else f"{files:,} files"
    also = "" if runs == 0 else " and 1 run" if runs == 1 else f" and {runs:,} runs"
    return f"Redone: {what}{also} restored."


def tool_words(asked: e.ToolAsked) -> str:
    """Describe a tool call in one line."""
    named = ("command", "path", "pattern", "url", "text", "query")
    said = next((str(asked.args[key]) for key in named if asked.args.get(key)), "")
    if asked.name == APPLY_PATCH:
        said = ", ".join(dict.fromkeys(PATCHED.findall(str(asked.args.get("input", "")))))
    if not said and asked.args:
        said = ", ".join(f"{key}={value}" for key, value in asked.args.items())
    return safe_line(f"{asked.name}  {said or asked.bad_args}", ARGS_CHARS_MAX)


def tool_line(style: Style, words: str, ended: e.ToolEnded, *, shows_why: bool = True) -> str:
    """A tool call that is over: how it went, what it was, how long it took, and why it failed."""
    sign, colour = ("✓", "green") if ended.ok else ("✗", "red")
    how = "" if ended.ending == "finished" else f" · {ended.ending.replace('_', ' ')}"
    tail = f"  {seconds(ended.ms)}{how}"
    width = max(10, style.width() - len(tail) - 2)
    line = style.line(f"{sign} {safe_line(words, width)}{tail}", colour if not ended.ok else "dim")
    if shows_why and not ended.ok and ended.result.strip():
        first = next((one for one in safe(ended.result).splitlines() if one.strip()), "")
        line += style.line(f"  {safe_line(first, RESULT_CHARS_MAX)}", "dim red")
    return line


def ask_text(style: Style, asked: e.ApprovalAsked | e.QuestionAsked) -> str:
    """An approval or a question; its choices are in the menu below it."""
    if isinstance(asked, e.QuestionAsked):
        return _question_text(style, asked)
    return _approval_text(style, asked)


def _approval_text(style: Style, asked: e.ApprovalAsked) -> str:
    """One exact action, and everything that was found in it."""
    action = asked.action
    if action.tool == UPDATE_PLAN:
        plan = "".join(style.line(f"  {line}", "bold") for line in exact(action.summary).split("\n"))
        return "\n" + style.line(exact(asked.headline), "bold magenta") + plan
    text = "\n" + style.line(f"Allow this action?  ({exact(action.tool)})", "bold magenta")
    if asked.headline:
        text += style.line(f"  {exact(asked.headline)}", "magenta")
    for line in exact(action.summary).split("\n"):
        text += style.line(f"  {line}", "bold")
    # A command may name any path, and still run in another.
    if action.paths and (action.tool == "shell" or not all(path in action.summary for path in action.paths)):
        what = "in" if action.tool == "shell" else "paths:"
        text += style.line(f"  {what} {', '.join(exact(path) for path in action.paths)}")
    if action.host:
        text += style.line(f"  host: {exact(action.host)}")
    # All of it, however long: what isn't shown isn't approved.
    for line in exact(action.diff).splitlines():
        text += style.line(f"  {line}", {"+": "green", "-": "red"}.get(line[:1], "dim"))
    look = "dim" if asked.headline else "magenta"  # below a headline these are the details
    text += "".join(style.line(f"  · {exact(finding)}", look) for finding in asked.findings)
    text += "".join(_offer_text(style, offer) for offer in asked.offers)
    if asked.once_because:
        text += style.line(f"  {exact(asked.once_because)}")
    return text


def _offer_text(style: Style, offer: GrantOffer) -> str:
    """Show examples of what a lasting approval of one width would allow."""
    is_exact = offer.rule.width == "exact"
    words = "In this session, or always:" if is_exact else "Similar commands, in this session or always:"
    text = style.line(f"  {words}")
    text += style.dim(f"    allows:     {exact(offer.covers)}")
    return text + style.dim(f"    still asks: {exact(offer.asks)}")


def answer_words(choices: Sequence[str], offers: Sequence[GrantOffer]) -> Mapping[str, tuple[Choice, Width]]:
    """Return the answers a person can type; "session similar" can't be typed by accident."""
    known: tuple[Choice, ...] = ("once", "session", "always", "deny")
    words: dict[str, tuple[Choice, Width]] = {}
    similar = any(offer.rule.width == "similar" for offer in offers)
    for choice in known:
        if choice in choices:
            words[choice] = (choice, "exact")
            if similar and choice in {"session", "always"}:
                words[f"{choice} similar"] = (choice, "similar")
    return words


def _question_text(style: Style, asked: e.QuestionAsked) -> str:
    """Render a run's question."""
    return "\n" + style.line(safe(asked.text), "bold magenta")


STOPPED_HERE = "You stopped this run"


def ending_text(style: Style, ended: e.RunEnded, *, stopped_here: bool = False) -> str:
    """How a run ended, unless it completed, with the whole trace if it failed."""
    if ended.outcome == "completed":
        return ""
    words = _ending_words(ended, stopped_here=stopped_here)
    if ended.outcome == "cancelled":
        return "\n" + style.dim(f"■ {words}")
    text = "\n" + style.line(f"✗ {words}", "red")
    for line in _trace(ended):
        text += style.dim(f"  {safe_line(line)}")
    if ended.failure is not None and ended.failure.hint:
        text += style.line(f"  {safe_line(ended.failure.hint)}", "magenta")
    return text


def plain_ending(ended: e.RunEnded) -> list[str]:
    """The same without colours."""
    words = _ending_words(ended, stopped_here=False)
    lines = [f"holdfast: {words}", *(f"  {safe_line(line)}" for line in _trace(ended))]
    if ended.failure is not None and ended.failure.hint:
        lines.append(f"  {safe_line(ended.failure.hint)}")
    return lines


def _ending_words(ended: e.RunEnded, *, stopped_here: bool) -> str:
    """How it ended, in one line; only a stop from this very terminal is surely yours."""
    if stopped_here and ended.outcome == "cancelled" and ended.cause == "user_stop":
        return STOPPED_HERE
    return safe_line(ending_words(ended.outcome, ended.cause, failure=ended.failure))


def _trace(ended: e.RunEnded) -> tuple[str, ...]:
    """Return the trace of attempts; a refusal or a stop needs none."""
    return () if ended.outcome in {"refused", "cancelled"} else ended.trace


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
