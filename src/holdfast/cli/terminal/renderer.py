"""A session's events, told on a terminal: what stays is returned as text, what may change is live.

The text of an answer on its way to the terminal: each block is printed once, the last one is live.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from holdfast import events as e
from holdfast.catalog import frames_for
from holdfast.cli.terminal.blocks import Block, BlockCutter
from holdfast.cli.terminal.style import Style
from holdfast.cli.terminal.tool_output import ToolOutputs, ending_text, redone_words, switch_words, tool_words
from holdfast.client.updates import AskEvent, Away, LiveLine, ask_id, resolved_id
from holdfast.folds.activity import CERTAIN, MOVING, WORDS, Activity
from holdfast.folds.entries import saved_words
from holdfast.safe_text import safe, safe_line

LIVE_CHARS_MAX = 4_000  # more than a screen shows
AGAIN = "↻ the answer was cut off, so it starts over:"


class AnswerText:
    """One stretch of text; when its attempt is superseded, a new one that begins alike continues unseen."""

    def __init__(self, style: Style) -> None:
        self._ink = style
        self._cutter = BlockCutter()
        self._screen: list[Block] = []  # what is on the screen of this stretch
        self._matched = 0  # and how much of it the present attempt has said too
        self._chars = 0  # that the present attempt has said
        self._kept = ""  # the unfinished block of a superseded attempt, shown until the new text catches up
        self._kept_chars = 0
        self.is_begun = False
        self._live: tuple[Block, int, str] | None = None  # what was rendered last, for which width

    def add(self, text: str) -> str:
        """Return the text to print after this delta."""
        self.is_begun = True
        self._chars += len(text)
        return "".join(self._shown(block) for block in self._cutter.feed(text))

    def end(self) -> str:
        """Return the rest of the segment; the next one can start."""
        shown = "".join(self._shown(block) for block in self._cutter.end())
        if self._matched < len(self._screen):
            shown += self._again(self._screen[: self._matched])
        self._screen, self._matched, self.is_begun = [], 0, False
        self._chars, self._kept, self._kept_chars = 0, "", 0
        return shown

    def supersede(self) -> None:
        """All of it counts for nothing; what comes next may well begin with the same words."""
        if self._chars >= self._kept_chars:
            self._kept, self._kept_chars = self._cutter.rest.text, self._chars
        self._matched, self._chars, self.is_begun = 0, 0, False
        self._cutter = BlockCutter()

    @property
    def live(self) -> str:
        """The block that may still grow."""
        rest, width = self._cutter.rest, self._ink.width()
        if self._chars < self._kept_chars:
            return "\n" + self._ink.dim(safe(self._kept[-LIVE_CHARS_MAX:])) if self._kept.strip() else ""
        if self._matched < len(self._screen) or not rest.text.strip():
            return ""
        if len(rest.text) > LIVE_CHARS_MAX:
            rest = Block(rest.text[-LIVE_CHARS_MAX:], rest.language)
        if self._live is None or self._live[:2] != (rest, width):
            self._live = (rest, width, self._spaced(rest))
        return self._live[2]

    def _shown(self, block: Block) -> str:
        if self._matched == len(self._screen):
            shown = self._spaced(block)
            self._screen.append(block)
        elif block == self._screen[self._matched]:
            shown = ""
        else:
            # The new answer is another one, so it is shown whole.
            self._screen = [*self._screen[: self._matched], block]
            shown = self._again(self._screen)
        self._matched += 1
        return shown

    def _again(self, blocks: list[Block]) -> str:
        return "\n" + self._ink.dim(AGAIN) + "".join("\n" + self._ink.block(block) for block in blocks)

    def _spaced(self, block: Block) -> str:
        """With an empty line before it, unless it continues the code above."""
        goes_on = self._screen and block.language is not None and self._screen[-1].language is not None
        return ("" if goes_on else "\n") + self._ink.block(block)


THOUGHT_CHARS_MAX = 4_000
TOOL_CHARS_MAX = 60
SILENT_S = 3  # a model that says nothing for so long is not called answering
TRIES_TOLD = 8  # some ten seconds


@dataclass(slots=True)
class Renderer:
    """Renders events one by one. `open_runs` are in order; the first is active."""

    style: Style
    can_approve: bool = True  # whether the key may answer approvals
    own: set[str] = field(default_factory=set[str])  # client ids of what was typed on this very screen
    open_runs: list[str] = field(default_factory=list[str])
    asks: dict[str, AskEvent] = field(default_factory=dict[str, AskEvent])
    tools: dict[str, str] = field(default_factory=dict[str, str])  # tool calls that are not over
    waiting: dict[str, str] = field(default_factory=dict[str, str])  # messages that no run has taken up
    activities: dict[str, Activity] = field(default_factory=dict[str, Activity])  # of the open runs
    server_says: LiveLine | None = None
    away: str | None = None  # why, once it takes long
    last_run: str = ""
    pinned: Callable[[], str] | None = None  # stays in view while a run works, such as its plan
    is_planning: bool = False  # whether the newest run may only read until its plan is accepted
    stopped_here: set[str] = field(default_factory=set[str])  # runs that the person stopped on this screen
    outputs: ToolOutputs = field(init=False)
    _text: AnswerText = field(init=False)
    _last_event_ms: int = 0
    _thought: str = ""
    _thinking: int = 0  # the segment
    _thinking_since_ms: int = 0
    _thoughts_told: set[int] = field(default_factory=set[int])
    _is_answer: bool = True
    _call_id: str = ""
    _messages: dict[str, str] = field(default_factory=dict[str, str])  # of runs that wait
    _pause: e.QueuePaused | None = None  # of the queue, until it is resumed
    _held: set[str] = field(default_factory=set[str])  # runs that don't start before that

    def __post_init__(self) -> None:
        self._text = AnswerText(self.style)
        self.outputs = ToolOutputs(self.style)

    def hear(self, event: e.Event) -> str:
        """Return the text to print permanently after this event."""
        self.server_says = None
        self._last_event_ms = event.at_ms
        step = _STEPS.get(type(event))
        shown = step(self, event) if step is not None else ""
        if (run_id := getattr(event, "run_id", "")) in self.open_runs:
            self._activity(run_id, event.at_ms).take(event)
        return shown

    def _activity(self, run_id: str, now_ms: int) -> Activity:
        """Return the activity of an open run; unknown for one that was active before the first event."""
        return self.activities.setdefault(run_id, Activity(latest="between", changed_ms=now_ms))

    @property
    def run_id(self) -> str:
        """Return the active run, if any."""
        return self.open_runs[0] if self.open_runs else ""

    def live(self) -> str:
        """Return the text that may still change: the answer's last block, a tool's output or reasoning."""
        if self._text.is_begun:
            return self._text.live
        if self._thought:
            return "\n" + self.style.line(safe_line(self._thought)[-2 * self.style.width() :], "dim italic")
        return self.outputs.live()

    def pinned_lines(self) -> str:
        """Return the text that stays in view while a run works, below other live text."""
        return self.pinned() if self.pinned is not None and self.open_runs else ""

    def status(self, now_ms: int) -> str:
        """Return the live line; empty when nothing is happening."""
        if self.away is not None:
            return f"reconnecting … {safe_line(self.away, 80)}".rstrip()
        if not self.open_runs:
            return ""
        words = self._words(self._activity(self.run_id, now_ms), now_ms)
        count = len(self.waiting)
        return f"{words} · {count} {'message' if count == 1 else 'messages'} queued" if count else words

    def _words(self, activity: Activity, now_ms: int) -> str:
        if activity.name == "queued" and self.run_id in self._held:
            return "queued · the queue is paused"
        said = self.server_says
        if said is not None and said.run_id == self.run_id and activity.name not in CERTAIN:
            return safe_line(said.text)
        silent_s = (now_ms - self._last_event_ms) // 1000
        if activity.name in MOVING and silent_s >= SILENT_S:
            waiting = WORDS["waiting"].format(model=activity.model or "the model")
            return safe_line(f"{waiting} · {silent_s} s")
        if activity.name == "approval" and not self.can_approve:
            return "waiting for an approval (your key can't approve)"
        words = activity.words(tool=safe_line(self.tools.get(activity.tool_call_id, ""), TOOL_CHARS_MAX))
        passed_s = 0 if activity.name in MOVING else max(0, now_ms - activity.since_ms) // 1000
        return safe_line(f"{words} · {passed_s} s" if passed_s else words)

    def lost(self, away: Away) -> None:
        """Record that the server is unreachable, shown only if that lasts."""
        self.away = f"({away.why})" if away.tries > TRIES_TOLD else ""

    def text(self, event: e.TextDelta) -> str:
        """More of the answer."""
        if not self._is_answer:
            return ""
        shown = self._thought_over(event)
        return shown + self._text.add(event.text)

    def text_done(self, event: e.TextDone) -> str:
        """A stretch of the answer is complete."""
        if not self._is_answer:
            return ""
        shown = "" if self._text.is_begun else self._thought_over(event) + self._text.add(event.text)
        return shown + self._text.end()

    def thought(self, event: e.ReasoningDelta) -> str:
        """More of what the model thinks."""
        if self._is_answer:
            if not self._thought:
                self._thinking_since_ms = event.at_ms
            self._thinking = event.segment
            self._thought = (self._thought + event.text)[:THOUGHT_CHARS_MAX]
        return ""

    def thought_done(self, event: e.ReasoningDone) -> str:
        """A thought is complete: one line of it stays."""
        if self._is_answer and not self._thought and event.segment not in self._thoughts_told:
            self._thought, self._thinking_since_ms = event.text, event.at_ms
        self._thinking = event.segment
        return self._thought_over(event)

    def _thought_over(self, event: e.Event) -> str:
        thought, self._thought = safe_line(self._thought), ""
        if not thought:
            return ""
        self._thoughts_told.add(self._thinking)
        passed_s = (event.at_ms - self._thinking_since_ms) // 1000
        words = f"thought for {passed_s} s: " if passed_s else "thought: "
        return "\n" + self.style.line(
            words + safe_line(thought, self.style.width() - len(words)), "dim italic"
        )

    def call_started(self, event: e.CallStarted) -> str:
        """Titles and summaries are calls too, and no part of the conversation."""
        self._is_answer = event.purpose == "answer"
        self._call_id = event.call_id
        return ""

    def attempt_started(self, event: e.AttemptStarted) -> str:
        """A connection is made, perhaps for a call that needed a summary first."""
        self._is_answer = self._is_answer or event.call_id != self._call_id
        self._thoughts_told.clear()
        return ""

    def superseded(self, _: e.AttemptSuperseded) -> str:
        """Discard the attempt's text."""
        self._text.supersede()
        self._thought = ""
        return ""

    def tool_asked(self, event: e.ToolAsked) -> str:
        """A tool is wanted; the line is printed when it is over."""
        self.tools[event.tool_call_id] = tool_words(event)
        self.outputs.asked(event.tool_call_id, tool_words(event))
        return self._thought_over(event)

    def tool_ended(self, event: e.ToolEnded) -> str:
        """A tool call is over."""
        self.tools.pop(event.tool_call_id, None)
        return self.outputs.ended(event)

    def tool_printed(self, event: e.ToolOutput) -> str:
        """A tool prints; its last lines are live."""
        self.outputs.printed(event)
        return ""

    def ended(self, event: e.RunEnded) -> str:
        """A run is over, and how."""
        is_mine = event.run_id in self.stopped_here
        return self.finished(event) + ending_text(self.style, event, stopped_here=is_mine)

    def finished(self, event: e.RunEnded) -> str:
        """Record a run's end; its outcome is shown elsewhere."""
        if event.run_id in self.open_runs:
            self.open_runs.remove(event.run_id)
        self.asks = {key: one for key, one in self.asks.items() if one.run_id != event.run_id}
        shown = self._text.end() if self._text.is_begun else ""
        self.activities.pop(event.run_id, None)
        self.tools.clear()
        self._thought = ""
        return shown

    def queue_paused(self, event: e.QueuePaused) -> str:
        """The queue is paused: runs that haven't started wait for a person."""
        self._pause = event
        self._held = {run_id for run_id in self.open_runs if self._is_queued(run_id)}
        return self.style.dim("· the queue is paused; use /queue resume or /queue clear")

    def queue_resumed(self, _: e.QueueResumed) -> str:
        """Queued runs start again."""
        self._pause, self._held = None, set()
        return ""

    def _is_queued(self, run_id: str) -> bool:
        known = self.activities.get(run_id)
        return known is not None and known.name == "queued"

    def queued(self, event: e.RunQueued) -> str:
        """A run exists."""
        if self._pause is not None and not self._pause.by_stop:
            self._held.add(event.run_id)  # what is sent after a stop starts as usual
        self.open_runs.append(event.run_id)
        self.activities[event.run_id] = Activity(changed_ms=event.at_ms)
        self._messages[event.run_id] = event.message_id
        self.last_run = event.run_id
        self.is_planning = event.settings.plan_first
        return ""

    def notice(self, text: str) -> str:
        """One line about the run."""
        return self.style.dim("· " + safe_line(text))

    def started(self, event: e.RunStarted) -> str:
        """Record an active run."""
        if event.run_id in self.open_runs:
            self.open_runs.remove(event.run_id)
        self.open_runs.insert(0, event.run_id)
        self.last_run = event.run_id
        self.waiting.pop(self._messages.pop(event.run_id, ""), None)
        self.activities.setdefault(event.run_id, Activity())
        return ""

    def accepted(self, event: e.MessageAccepted) -> str:
        """Somebody said something; what was typed here is on the screen already."""
        busy = bool(self.open_runs)
        if busy:
            self.waiting[event.message_id] = event.text
        if event.client_id in self.own:
            return ""
        return "\n" + self.style.line(f"> {safe(event.text)}", "bold cyan")

    def dispatched(self, event: e.MessageDispatched) -> str:
        """A message found its run."""
        if self.waiting.pop(event.message_id, None) is None:
            return ""
        return self.style.dim("↳ read by the agent")

    def asked(self, event: AskEvent) -> str:
        """Record an open request; the caller shows it."""
        self.asks[ask_id(event)] = event
        return ""

    def resolution(self, event: e.Event) -> str:
        """An ask is no longer open."""
        self.asks.pop(resolved_id(event), None)
        return ""


def _approved(renderer: Renderer, event: e.ApprovalAnswered) -> str:
    renderer.resolution(event)
    said = "denied" if event.choice == "deny" else f"allowed: {event.choice}"
    return renderer.style.dim(f"  {said}" + (f" ({safe_line(event.reason, 80)})" if event.reason else ""))


def _notice(words: Callable[[Any], str]) -> Callable[[Renderer, Any], str]:
    return lambda renderer, event: renderer.notice(words(event))


def _rewound(event: e.SessionRewound) -> str:
    if event.undo is None:
        return "the last answer was removed"
    count = event.undo.files
    files = f"{count} file to its state" if count == 1 else f"{count} files to their state"
    if event.undo.redoes:
        return redone_words(event.undo.files, 0 if event.undo.keeps_log else event.undo.turns)
    runs = "1 run" if event.undo.turns == 1 else f"{event.undo.turns or len(event.undo.runs)} runs"
    removed = "" if event.undo.keeps_log else f", and removed {runs} from the conversation"
    return f"restored {files} before the run{removed}"


def _compacted_words(event: e.ContextCompacted) -> str:
    saved = f": about {event.tokens_before:,} → {event.tokens_after:,} tokens" if event.tokens_before else ""
    return f"the earlier conversation was summarized for the model{saved}"


def _removed(renderer: Renderer, event: e.MessageRemoved) -> str:
    renderer.waiting.pop(event.message_id, None)
    return ""


def _expired(renderer: Renderer, event: Any) -> str:
    return renderer.resolution(event) + renderer.style.dim("  no one answered in time, so it was denied")


_STEPS: Mapping[type[e.Event], Callable[[Renderer, Any], str]] = MappingProxyType(
    {
        e.MessageAccepted: Renderer.accepted,
        e.MessageDispatched: Renderer.dispatched,
        e.MessageRemoved: _removed,
        e.RunQueued: Renderer.queued,
        e.RunStarted: Renderer.started,
        e.CallStarted: Renderer.call_started,
        e.AttemptStarted: Renderer.attempt_started,
        e.AttemptSuperseded: Renderer.superseded,
        e.TextDelta: Renderer.text,
        e.TextDone: Renderer.text_done,
        e.ReasoningDelta: Renderer.thought,
        e.ReasoningDone: Renderer.thought_done,
        e.ToolAsked: Renderer.tool_asked,
        e.ToolOutput: Renderer.tool_printed,
        e.ToolEnded: Renderer.tool_ended,
        e.ApprovalAsked: Renderer.asked,
        e.QuestionAsked: Renderer.asked,
        e.ApprovalAnswered: _approved,
        e.QuestionAnswered: Renderer.resolution,
        e.ApprovalExpired: _expired,
        e.QuestionExpired: _expired,
        e.ApprovalWithdrawn: Renderer.resolution,
        e.QuestionWithdrawn: Renderer.resolution,
        e.TargetSwitched: _notice(switch_words),
        e.ContextCompacted: _notice(_compacted_words),
        e.AttachmentsSaved: _notice(lambda event: saved_words(event.files)),
        e.RunResumed: _notice(lambda event: f"resumed after a {event.after}"),
        e.SessionRewound: _notice(_rewound),
        e.QueuePaused: Renderer.queue_paused,
        e.QueueResumed: Renderer.queue_resumed,
        e.RunEnded: Renderer.ended,
        **frames_for("terminal"),
    }
)
