"""Writes a model's answer to the log: one attempt's model events become the run's events."""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import msgspec
from msgspec import Struct, field

from holdfast import events as e
from holdfast.folds.gathered import Gathered
from holdfast.interfaces.ids import new_call_id
from holdfast.interfaces.model import Answer, EventSink
from holdfast.messages import AskedTool
from holdfast.model_events import (
    LONG_CHARS,
    ArgsPiece,
    Finished,
    ItemClosed,
    ItemOpened,
    ModelEvent,
    ReasoningPiece,
    TextPiece,
)
from holdfast.values import ToolOwner

NOTHING: Mapping[str, str] = MappingProxyType({})
_SPACE = re.compile(r"\s")


class _OpenSegment(Struct):
    """A segment that is still being written: its number and its text so far."""

    segment: int
    is_thought: bool
    said: Gathered = field(default_factory=Gathered)
    is_rest: bool = False  # earlier segments of the item are complete


class AnswerWriter:
    """Passes one attempt's answer to the sink, and remembers the tools it asks for.

    Long text and reasoning is split into segments. Once text, reasoning and tool arguments together exceed
    `bytes_max`, `is_full` is set and nothing more is written.
    """

    def __init__(
        self,
        sink: EventSink,
        *,
        tool_ids: Callable[[], set[str]],
        owner_of: Callable[[str], ToolOwner],
        call_tool: str = "",
        before_first: Callable[[], None],
        bytes_max: int,
    ) -> None:
        self._sink = sink
        self._say = sink.say
        self._tool_ids = tool_ids
        self._owner_of = owner_of
        self._call_tool = call_tool
        self._before_first = before_first
        self._bytes_left = bytes_max
        self._open_segments: dict[int, _OpenSegment] = {}
        self._asked: list[AskedTool] = []
        self._written = 0  # of these, how many are on the log
        self.texts: list[str] = []  # the text of each closed item that fits into one segment
        self.said = False  # something visible is on the log
        self.produced = False  # text that isn't only white space, or a whole tool call
        self.is_full = False

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Ignore the head of the response: the log has the answer alone."""

    def raw(self, piece: bytes) -> None:
        """Ignore the bytes, for the same reason."""

    def write_text(self, index: int, text: str) -> None:
        """Write more text of an item."""
        written = self._open_segments.get(index)
        if written is None:
            self._begin()
            written = self._open_segment(index, is_thought=False)
        # White space alone is no answer: the model isn't shown it again, and nobody can read it.
        self.produced = self.produced or not text.isspace()
        if text := self._counted(text):
            self._write_to(written, text)

    def write(self, event: ModelEvent) -> None:
        """Write one model event."""
        match event:
            case TextPiece():
                if event.text:
                    self.write_text(event.index, event.text)
            case ReasoningPiece():
                if text := self._counted(event.text):
                    self._begin()
                    self._write_to(self._open_segment(event.index, is_thought=True), text)
            case ArgsPiece():
                self._counted(event.text)
            case ItemClosed():
                self._close(event)
            case ItemOpened():
                self._open_segments.pop(event.index, None)
            case _:
                pass

    def cut(self) -> None:
        """End the answer here: complete the open segments."""
        for written in self._open_segments.values():
            if text := str(written.said):
                self._settle(written, text)

    def _counted(self, text: str) -> str:
        """The part of the text that still fits."""
        if self.is_full:
            return ""
        left = self._bytes_left
        self._bytes_left -= len(text) if text.isascii() else len(text.encode(errors="replace"))
        if self._bytes_left >= 0:
            return text
        self.is_full = True
        return text.encode(errors="replace")[:left].decode(errors="ignore")

    def _write_to(self, written: _OpenSegment, text: str) -> None:
        """Write the text; a segment that gets too long ends between two words, so that no secret is split."""
        said, write = written.said, self._sink.think if written.is_thought else self._say
        while said.total_chars + len(text) >= LONG_CHARS:
            room = max(LONG_CHARS - said.total_chars, 0)
            space = _SPACE.search(text, room, room + LONG_CHARS)
            if space is None and len(text) < room + LONG_CHARS and said.total_chars < 2 * LONG_CHARS:
                break
            end = space.end() if space else min(len(text), room + LONG_CHARS)
            said.add(text[:end])
            write(written.segment, text[:end])
            self._settle(written, str(said), goes_on=True)
            said = written.said = Gathered()
            written.segment, written.is_rest = self._sink.next_segment(), True
            text = text[end:]
        if text:
            said.add(text)
            write(written.segment, text)

    def answer(self, call_id: str, finish: Finished) -> Answer | None:
        """The answer, whose tool calls are written to the log now; None if it is empty or a refusal.

        An answer that begins with a stop sequence is empty and complete.
        """
        is_cut = finish.reason in {"length", "too_long"}
        is_empty = not (self.produced or finish.stop_sequence)
        if not is_cut and (finish.reason == "refused" or is_empty):
            return None
        if not is_cut:
            self.ask()
        tools = tuple(self._asked[: self._written])
        return Answer(call_id, "tools" if tools else finish.reason, tools, "".join(self.texts))

    def ask(self) -> Sequence[AskedTool]:
        """Write the tool calls to the log that are whole and not there yet, and return them."""
        if self._asked:
            self._begin()
        asking = self._asked[self._written :]
        self._written = len(self._asked)
        for asked in asking:
            self._sink.emit(
                e.ToolAsked(
                    at_ms=self._sink.now_ms(),
                    run_id=self._sink.run_id,
                    tool_call_id=asked.tool_call_id,
                    name=asked.name,
                    owner=self._owner_of(asked.name),
                    args=asked.args,
                    bad_args=asked.bad_args,
                    opaque=asked.opaque,
                    via=asked.via,
                )
            )
        return asking

    def _begin(self) -> None:
        if not self.said:
            self._before_first()
            self.said = True

    def _open_segment(self, index: int, *, is_thought: bool) -> _OpenSegment:
        written = self._open_segments.get(index)
        if written is None:
            written = self._open_segments[index] = _OpenSegment(self._sink.next_segment(), is_thought)
        return written

    def _close(self, item: ItemClosed) -> None:
        if item.kind == "tool":
            self.produced = True
            self._asked.append(self._ask(item))
            return
        known = self._open_segments.get(item.index)
        is_rest = known is not None and known.is_rest
        text = str(known.said) if known is not None and is_rest else item.text
        is_thought = item.kind == "reasoning"
        # The provider gets this data back only together with the whole thought.
        opaque = item.opaque if is_thought and not is_rest else {}
        if text or opaque:
            self._begin()
            self._settle(
                self._open_segment(item.index, is_thought=is_thought), text, phase=item.phase, opaque=opaque
            )
            self.produced = self.produced or not (is_thought or text.isspace())
            if not is_thought and not is_rest:
                self.texts.append(text)
        self._open_segments.pop(item.index, None)

    def _settle(
        self,
        written: _OpenSegment,
        text: str,
        *,
        goes_on: bool = False,
        phase: str = "",
        opaque: Mapping[str, str] = NOTHING,
    ) -> None:
        """Write the complete text of a segment."""
        at_ms, run_id = self._sink.now_ms(), self._sink.run_id
        segment = written.segment
        self._sink.emit(
            e.ReasoningDone(at_ms=at_ms, run_id=run_id, segment=segment, text=text, opaque=dict(opaque))
            if written.is_thought
            else e.TextDone(
                at_ms=at_ms, run_id=run_id, segment=segment, text=text, phase=phase, goes_on=goes_on
            )
        )

    def _ask(self, item: ItemClosed) -> AskedTool:
        # Some servers give every call the same id, or none; ours are unique within the run.
        tool_call_id = item.tool_call_id
        known = self._tool_ids()
        if not tool_call_id or tool_call_id in known:
            tool_call_id = new_call_id()
        known.add(tool_call_id)
        args = _object(item.text)
        if args is None:
            return AskedTool(tool_call_id, item.name, bad_args=item.text, opaque=item.opaque)
        if self._call_tool and item.name == self._call_tool and (inner := _inner(args)) is not None:
            name, args, bad_args = inner
            return AskedTool(
                tool_call_id, name, args, bad_args=bad_args, opaque=item.opaque, via=self._call_tool
            )
        return AskedTool(tool_call_id, item.name, args, opaque=item.opaque)


def _inner(args: Mapping[str, Any]) -> tuple[str, dict[str, Any], str] | None:
    """Return the name, arguments and bad arguments of the call in these; None if they have none."""
    name = args.get("name")
    given: object = args.get("arguments") or {}
    if not isinstance(name, str) or not name or args.keys() - {"name", "arguments"}:
        return None
    if isinstance(given, dict):
        return name, cast("dict[str, Any]", given), ""
    if not isinstance(given, str):
        return None
    inner = _object(given)  # some models encode them once more
    return (name, {}, given) if inner is None else (name, inner, "")


def _object(text: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return None
