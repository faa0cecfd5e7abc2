"""Puts on the log what a model says: one attempt's model events become a run's events."""

import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast import events as e
from holdfast.capabilities import Voice
from holdfast.messages import AskedTool
from holdfast.model_events import (
    ItemClosed,
    ItemOpened,
    ModelEvent,
    ReasoningPiece,
    TextPiece,
)


class Speaker:
    """Says one attempt's answer through the voice, and remembers the tools that it asks for."""

    def __init__(self, voice: Voice, *, tool_ids: set[str], before_first: Callable[[], None]) -> None:
        self._voice = voice
        self._say = voice.say
        self._tool_ids = tool_ids
        self._before_first = before_first
        self._segments: dict[int, int] = {}
        self._asked: list[AskedTool] = []
        self.texts: list[str] = []  # the whole text of each item that the protocol closed
        self.said = False  # something visible is on the log
        self.produced = False  # text or a whole tool call

    def say(self, index: int, text: str) -> None:
        """More text of an item."""
        segment = self._segments.get(index)
        if segment is None:
            self._begin()
            self.produced = True
            segment = self._segment(index)
        self._say(segment, text)

    def hear(self, event: ModelEvent) -> None:
        """Take in one model event."""
        match event:
            case TextPiece():
                if event.text:
                    self.say(event.index, event.text)
            case ReasoningPiece():
                if event.text:
                    self._begin()
                    self._voice.think(self._segment(event.index), event.text)
            case ItemClosed():
                self._close(event)
            case ItemOpened():
                self._segments.pop(event.index, None)
            case _:
                pass

    def tools(self) -> tuple[AskedTool, ...]:
        """The finished answer asks for these: now they are on the log too."""
        if self._asked:
            self._begin()
        for asked in self._asked:
            self._voice.emit(
                e.ToolAsked(
                    at_ms=self._voice.now_ms(),
                    run_id=self._voice.run_id,
                    tool_call_id=asked.tool_call_id,
                    name=asked.name,
                    args=asked.args,
                    bad_args=asked.bad_args,
                    opaque=asked.opaque,
                )
            )
        return tuple(self._asked)

    def _begin(self) -> None:
        if not self.said:
            self._before_first()
            self.said = True

    def _segment(self, index: int) -> int:
        if index not in self._segments:
            self._segments[index] = self._voice.next_segment()
        return self._segments[index]

    def _close(self, item: ItemClosed) -> None:
        voice = self._voice
        if item.kind == "tool":
            self.produced = True
            self._asked.append(self._ask(item))
        elif item.kind == "text" and item.text:
            self._begin()
            self.produced = True
            self.texts.append(item.text)
            segment = self._segment(item.index)
            voice.emit(
                e.TextDone(
                    at_ms=voice.now_ms(),
                    run_id=voice.run_id,
                    segment=segment,
                    text=item.text,
                    phase=item.phase,
                )
            )
        elif item.kind == "reasoning" and (item.text or item.opaque):
            self._begin()
            segment = self._segment(item.index)
            voice.emit(
                e.ReasoningDone(
                    at_ms=voice.now_ms(),
                    run_id=voice.run_id,
                    segment=segment,
                    text=item.text,
                    opaque=item.opaque,
                )
            )

    def _ask(self, item: ItemClosed) -> AskedTool:
        # Some servers give every call the same id, or none; ours are unique within the run.
        tool_call_id = item.tool_call_id
        if not tool_call_id or tool_call_id in self._tool_ids:
            tool_call_id = f"call_{secrets.token_hex(12)}"
        self._tool_ids.add(tool_call_id)
        args = _object(item.text)
        if args is None:
            return AskedTool(tool_call_id, item.name, bad_args=item.text, opaque=item.opaque)
        return AskedTool(tool_call_id, item.name, args, opaque=item.opaque)


def _object(text: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return None
