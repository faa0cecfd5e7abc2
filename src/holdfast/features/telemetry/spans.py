"""Builds the spans of runs from their events: calls, attempts, tool calls and commits. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from holdfast import events as e
from holdfast.features.telemetry import conventions as names

Value: TypeAlias = str | int | float | bool | Sequence[str]
Kind: TypeAlias = Literal["internal", "client"]
MS_NS = 1_000_000
CONTENT_CHARS_MAX = 16_384
COMMIT_S = 0.01  # quicker commits have no span; the histogram has all
RUNS_MAX = 10_000  # that are open
TEXTS_MAX = 1_000  # of messages that no run has received yet
FAILED = frozenset({"failed", "interrupted"})
_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


class TraceSpan(Struct):
    """A span: open while `end_ns` is 0."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    begin_ns: int
    kind: Kind = "internal"
    end_ns: int = 0
    run_id: str = ""
    error: str = ""
    attributes: dict[str, Value] = field(default_factory=dict[str, Value])

    def end(self, end_ns: int, *, error: str = "") -> None:
        """End it, with an error's type if it failed."""
        self.end_ns = max(end_ns, self.begin_ns)
        if error:
            self.error = self.attributes[names.ERROR_TYPE] = error


class _OpenRun(Struct):
    """A run's open spans by the ids of what they stand for."""

    root: TraceSpan
    open: dict[str, TraceSpan] = field(default_factory=dict[str, TraceSpan])
    call_id: str = ""
    output: list[str] = field(default_factory=list[str])


class Spans:
    """Folds events into spans. The ids follow from those of the run, so a resumed run keeps its trace."""

    def __init__(self, *, content: bool = False) -> None:
        self._content = content
        self._runs: dict[str, _OpenRun] = {}
        self._parents: dict[str, tuple[str, str]] = {}  # trace and span of the client, by run
        self._texts: dict[str, str] = {}  # of messages, if content is wanted
        self._ended: list[TraceSpan] = []

    def called_by(self, run_id: str, traceparent: str) -> None:
        """Note the caller's trace, as W3C Trace Context writes it; anything else is ignored."""
        if found := _TRACEPARENT.fullmatch(traceparent):
            self._parents[run_id] = found[1], found[2]
            _trim(self._parents)

    def requested(self, *, run: str = "", session: str = "", **_: str) -> str:
        """Note the session of a run that calls a model; the context for the request, or empty."""
        known = self._runs.get(run)
        if known is None:
            return ""
        known.root.attributes[names.CONVERSATION_ID] = session
        # The span of the call isn't known yet: its first event is committed together with its first output.
        return f"00-{known.root.trace_id}-{known.root.span_id}-01"

    def add(self, events: Sequence[e.Event], seconds: float, now_ns: int) -> None:
        """Apply the events of one commit, which took so long."""
        for event in events:
            step = _STEPS.get(type(event))
            if step is not None:
                step(self, event)
        if seconds < COMMIT_S:
            return
        run = next((self._runs.get(one.run_id) for one in events if isinstance(one, e.RunEvent)), None)
        if run is not None:
            begin_ns = now_ns - int(seconds * 1e9)
            commit = _child(run, f"commit/{run.root.run_id}/{now_ns}", "commit", begin_ns)
            commit.attributes["holdfast.events"] = len(events)
            commit.end(now_ns)
            self._ended.append(commit)

    def take(self) -> list[TraceSpan]:
        """Return the spans that have ended since the last time."""
        ended, self._ended = self._ended, []
        return ended

    def accepted(self, event: e.MessageAccepted) -> None:
        """Keep a message's text for its run."""
        if self._content:
            self._texts[event.message_id] = event.text
            _trim(self._texts)

    def dispatched(self, event: e.MessageDispatched) -> None:
        """Add the run's first message."""
        if text := self._texts.pop(event.message_id, ""):
            self._run(event).root.attributes.setdefault(names.INPUT_MESSAGES, _message("user", text))

    def _run(self, event: e.RunEvent) -> _OpenRun:
        """Return the run, which may have begun before its events were seen here."""
        return self._runs.get(event.run_id) or self._begin(event)

    def _begin(self, event: e.RunEvent) -> _OpenRun:
        run_id = event.run_id
        trace_id, parent_id = self._parents.pop(run_id, (_id(f"trace/{run_id}", 32), ""))
        begin_ns = event.at_ms * MS_NS
        root = TraceSpan(trace_id, _id(run_id, 16), parent_id, names.INVOKE_AGENT, begin_ns, run_id=run_id)
        root.attributes = {names.OPERATION_NAME: names.INVOKE_AGENT, "holdfast.run.id": run_id}
        self._runs[run_id] = run = _OpenRun(root)
        _trim(self._runs, RUNS_MAX)  # another server may have continued the oldest
        return run

    def begun(self, event: e.RunStarted) -> None:
        """Begin the run's span."""
        self._run(event)

    def resumed(self, event: e.RunResumed) -> None:
        """Begin the run's span again, under the same id."""
        self._run(event).root.attributes["holdfast.resumed_after"] = event.after

    def call_started(self, event: e.CallStarted) -> None:
        """Begin a call."""
        run = self._run(event)
        span = _child(run, event.call_id, names.CHAT, event.at_ms * MS_NS, kind="client")
        span.attributes = {names.OPERATION_NAME: names.CHAT, "holdfast.call.purpose": event.purpose}
        run.open[event.call_id], run.call_id, run.output = span, event.call_id, []

    def attempt_started(self, event: e.AttemptStarted) -> None:
        """Begin an attempt of a call."""
        run = self._runs.get(event.run_id)
        call = run.open.get(event.call_id) if run is not None else None
        if run is None or call is None:
            return
        span = _child(run, event.attempt_id, "attempt", event.at_ms * MS_NS, kind="client", below=call)
        span.attributes = {names.REQUEST_MODEL: event.model, "holdfast.target": event.target}
        span.attributes["holdfast.attempt.nth"] = event.nth
        run.open[event.attempt_id] = span
        if event.model:
            call.name = f"{names.CHAT} {event.model}"
            call.attributes.setdefault(names.REQUEST_MODEL, event.model)

    def spoken(self, event: "e.TextDelta | e.ReasoningDelta | e.ToolAsked") -> None:
        """Note when the model's first output came."""
        run = self._runs.get(event.run_id)
        call = run.open.get(run.call_id) if run is not None else None
        if call is not None and names.RESPONSE_TIME_TO_FIRST_CHUNK not in call.attributes:
            passed_ns = event.at_ms * MS_NS - call.begin_ns
            call.attributes[names.RESPONSE_TIME_TO_FIRST_CHUNK] = max(0.0, passed_ns / 1e9)

    def text_done(self, event: e.TextDone) -> None:
        """Add a text to the call's output."""
        run = self._runs.get(event.run_id)
        if self._content and run is not None:
            run.output.append(event.text)

    def attempt_failed(self, event: e.AttemptFailed) -> None:
        """End an attempt."""
        self._end(event.run_id, event.attempt_id, event.at_ms, error=event.failure.kind)

    def used(self, event: e.Usage) -> None:
        """Add a call's usage."""
        run = self._runs.get(event.run_id)
        call = run.open.get(event.call_id) if run is not None else None
        if call is None:
            return
        counts = {
            names.USAGE_INPUT_TOKENS: event.input_tokens,
            names.USAGE_OUTPUT_TOKENS: event.output_tokens,
            names.USAGE_CACHE_READ_INPUT_TOKENS: event.cached_tokens,
            names.USAGE_REASONING_OUTPUT_TOKENS: event.reasoning_tokens,
        }
        call.attributes |= {name: count for name, count in counts.items() if count}
        if event.model:
            call.attributes[names.RESPONSE_MODEL] = event.model
        if event.cost_usd is not None:
            call.attributes["holdfast.cost_usd"] = event.cost_usd

    def call_ended(self, event: e.CallEnded) -> None:
        """End a call, and the attempts of it that are open."""
        run = self._runs.get(event.run_id)
        call = run.open.get(event.call_id) if run is not None else None
        if run is None or call is None:
            return
        call.attributes[names.RESPONSE_FINISH_REASONS] = [event.finish]
        if session := run.root.attributes.get(names.CONVERSATION_ID):
            call.attributes[names.CONVERSATION_ID] = session
        if run.output:
            call.attributes[names.OUTPUT_MESSAGES] = _message("assistant", "".join(run.output))
        for key, span in list(run.open.items()):
            if span.parent_id == call.span_id:
                self._end(event.run_id, key, event.at_ms)
        error = "failed" if event.finish == "failed" else ""
        self._end(event.run_id, event.call_id, event.at_ms, error=error)

    def tool_asked(self, event: e.ToolAsked) -> None:
        """Begin a tool call; `tool_started` moves its beginning past any approval."""
        self.spoken(event)
        run = self._run(event)
        name = f"{names.EXECUTE_TOOL} {event.name}"
        span = _child(run, f"{event.run_id}/{event.tool_call_id}", name, event.at_ms * MS_NS)
        span.attributes = {
            names.OPERATION_NAME: names.EXECUTE_TOOL,
            names.TOOL_NAME: event.name,
            names.TOOL_CALL_ID: event.tool_call_id,
            names.TOOL_TYPE: "function",
        }
        if self._content:
            span.attributes[names.TOOL_CALL_ARGUMENTS] = _json(event.args)
        run.open[event.tool_call_id] = span

    def tool_started(self, event: e.ToolStarted) -> None:
        """The tool call begins, after any approval."""
        run = self._runs.get(event.run_id)
        span = run.open.get(event.tool_call_id) if run is not None else None
        if span is not None:
            span.attributes["holdfast.waited_s"] = (event.at_ms * MS_NS - span.begin_ns) / 1e9
            span.begin_ns = event.at_ms * MS_NS

    def tool_ended(self, event: e.ToolEnded) -> None:
        """End a tool call."""
        run = self._runs.get(event.run_id)
        span = run.open.get(event.tool_call_id) if run is not None else None
        if span is not None and self._content:
            span.attributes[names.TOOL_CALL_RESULT] = event.result[:CONTENT_CHARS_MAX]
        error = "" if event.ok else event.ending if event.ending != "finished" else "failed"
        self._end(event.run_id, event.tool_call_id, event.at_ms, error=error)

    def ended(self, event: e.RunEnded) -> None:
        """End a run and all that is open in it."""
        run = self._runs.pop(event.run_id, None)
        if run is None:
            return
        for span in run.open.values():
            span.end(event.at_ms * MS_NS, error="cancelled")
            self._ended.append(span)
        root = run.root
        root.attributes["holdfast.outcome"] = event.outcome
        kind = event.failure.kind if event.failure is not None else event.cause or event.outcome
        root.end(event.at_ms * MS_NS, error=kind if event.outcome in FAILED else "")
        self._ended.append(root)

    def _end(self, run_id: str, key: str, at_ms: int, *, error: str = "") -> None:
        run = self._runs.get(run_id)
        span = run.open.pop(key, None) if run is not None else None
        if span is not None:
            span.end(at_ms * MS_NS, error=error)
            self._ended.append(span)


def _child(
    run: _OpenRun,
    key: str,
    name: str,
    begin_ns: int,
    *,
    kind: Kind = "internal",
    below: TraceSpan | None = None,
) -> TraceSpan:
    parent = below or run.root
    return TraceSpan(
        parent.trace_id, _id(key, 16), parent.span_id, name, begin_ns, kind=kind, run_id=run.root.run_id
    )


def _id(text: str, digits: int) -> str:
    return sha256(text.encode()).hexdigest()[:digits]


def _message(role: str, text: str) -> str:
    parts = [{"type": "text", "content": text[:CONTENT_CHARS_MAX]}]
    return _json([{"role": role, "parts": parts}])


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()[: 2 * CONTENT_CHARS_MAX]


def _trim(known: dict[str, Any], most: int = TEXTS_MAX) -> None:
    while len(known) > most:
        del known[next(iter(known))]


_STEPS: Mapping[type[e.Event], Callable[[Spans, Any], None]] = MappingProxyType(
    {
        e.MessageAccepted: Spans.accepted,
        e.MessageDispatched: Spans.dispatched,
        e.RunStarted: Spans.begun,
        e.RunResumed: Spans.resumed,
        e.CallStarted: Spans.call_started,
        e.AttemptStarted: Spans.attempt_started,
        e.AttemptFailed: Spans.attempt_failed,
        e.TextDelta: Spans.spoken,
        e.ReasoningDelta: Spans.spoken,
        e.TextDone: Spans.text_done,
        e.Usage: Spans.used,
        e.CallEnded: Spans.call_ended,
        e.ToolAsked: Spans.tool_asked,
        e.ToolStarted: Spans.tool_started,
        e.ToolEnded: Spans.tool_ended,
        e.RunEnded: Spans.ended,
    }
)
