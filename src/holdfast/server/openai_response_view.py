"""A run as a response of the Responses protocol: the object, and the events of its stream."""

from collections.abc import Mapping
from typing import Any

from holdfast.entries import ToolCard
from holdfast.rows import RunRow
from holdfast.run import Run
from holdfast.server.continuing import response_id
from holdfast.server.hermes import Frame, RunFrames
from holdfast.server.openai_shapes import encode, is_failure, problem_of_run


def response_of(
    row: RunRow, model: str, *, frames: RunFrames | None = None, previous: str | None = None
) -> dict[str, Any]:
    """The response object; without frames it is the one that a stream begins with."""
    response: dict[str, Any] = {
        "id": response_id(row.run_id),
        "object": "response",
        "created_at": row.created_ms // 1000,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": previous,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None,
    }
    run = frames.run if frames else None
    if frames is None or run is None or run.outcome is None:
        return response
    response["metadata"] = run.settings.metadata
    response["usage"] = _usage(run)
    response["output"] = _output(frames)
    if run.outcome == "truncated":
        return response | {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    if run.outcome == "refused":
        return response | {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    if run.outcome == "cancelled":
        return response | {"status": "cancelled"}
    if is_failure(run):
        problem = problem_of_run(run)
        return response | {"status": "failed", "error": {"code": problem.code, "message": problem.message}}
    return response | {"status": "completed"}


def _output(frames: RunFrames) -> list[dict[str, Any]]:
    """What the run did and what came of it, in its order, and then its clean answer.

    The tools are the server's own, so each call stands here with its output: there is nothing left to run.
    """
    run_id = frames.known_run.run_id
    items: list[dict[str, Any]] = []
    for card in frames.seen.runs[run_id].entries:
        if isinstance(card, ToolCard):
            items.append(call_item(card.tool_call_id, card.name, card.args))
            if card.state == "ended":
                items.append(output_item(card.tool_call_id, card.result))
    if text := frames.output:
        items.append(message_item(f"msg_{run_id.removeprefix('run_')}", text))
    return items


def call_item(call_id: str, name: str, args: Mapping[str, object]) -> dict[str, Any]:
    """A tool call, as an output item."""
    return {
        "id": f"fc_{call_id}",
        "type": "function_call",
        "call_id": call_id,
        "name": name,
        "arguments": encode(args).decode(),
        "status": "completed",
    }


def output_item(call_id: str, result: str) -> dict[str, Any]:
    """What a tool call brought, as an output item."""
    return {
        "id": f"fco_{call_id}",
        "type": "function_call_output",
        "call_id": call_id,
        "output": result,
        "status": "completed",
    }


def message_item(item_id: str, text: str) -> dict[str, Any]:
    """What the assistant said, as an output item."""
    return {
        "id": item_id,
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": [_part(text)],
    }


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _usage(run: Run) -> dict[str, Any]:
    usage = run.usage
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


class ResponseView:
    """A run as events of a response, numbered from 0."""

    def __init__(self, row: RunRow, model: str, *, previous: str | None = None) -> None:
        self.id = response_id(row.run_id)
        self._row = row
        self._model = model
        self._previous = previous
        self._number = 0
        self._index = -1
        self._item = ""
        self._text: list[str] = []
        self._calls: set[str] = set()

    def response(self, frames: RunFrames | None = None) -> dict[str, Any]:
        """The response object as it stands."""
        return response_of(self._row, self._model, frames=frames, previous=self._previous)

    def begin(self) -> list[bytes]:
        """It is created and under way."""
        return [
            self._event(f"response.{name}", response=self.response()) for name in ("created", "in_progress")
        ]

    def add(self, frame: Frame, frames: RunFrames) -> list[bytes]:
        """Text goes into a message, each tool call is an item of its own, and so is what it brought."""
        match frame["event"]:
            case "message.delta":
                opened = [] if self._item else self._open_message()
                self._text.append(frame["delta"])
                return [*opened, self._text_event("delta", delta=frame["delta"], logprobs=[])]
            case "tool.started":
                return [*self._close_message(), *self._call(frame, frames)]
            case "tool.completed":
                # A call that was refused never started, and yet it was asked for.
                is_known = frame["tool_call_id"] in self._calls
                called = [] if is_known else [*self._close_message(), *self._call(frame, frames)]
                return [*called, *self._brought(frame)]
            case _:
                return []

    def end(self, frames: RunFrames) -> list[bytes]:
        """The message is closed, and the response says truthfully how it ended."""
        response = self.response(frames)
        names = {"completed": "completed", "incomplete": "incomplete"}
        name = names.get(response["status"], "failed")
        return [*self._close_message(), self._event(f"response.{name}", response=response)]

    def _open_message(self) -> list[bytes]:
        self._index += 1
        self._item = f"msg_{self._row.run_id.removeprefix('run_')}_{self._index}"
        item: dict[str, Any] = message_item(self._item, "")
        item |= {"status": "in_progress", "content": list[Any]()}
        return [
            self._event("response.output_item.added", output_index=self._index, item=item),
            self._in_part("response.content_part.added", part=_part("")),
        ]

    def _close_message(self) -> list[bytes]:
        if not self._item:
            return []
        text = "".join(self._text)
        closed = [
            self._text_event("done", text=text, logprobs=[]),
            self._in_part("response.content_part.done", part=_part(text)),
            self._event(
                "response.output_item.done", output_index=self._index, item=message_item(self._item, text)
            ),
        ]
        self._item, self._text = "", []
        return closed

    def _call(self, frame: Frame, frames: RunFrames) -> list[bytes]:
        self._index += 1
        call_id, name = frame["tool_call_id"], frame["tool"]
        self._calls.add(call_id)
        item = call_item(call_id, name, frames.tool_args(call_id))
        arguments: str = item["arguments"]
        place: dict[str, Any] = {"item_id": item["id"], "output_index": self._index}
        begun = item | {"arguments": "", "status": "in_progress"}
        return [
            self._event("response.output_item.added", output_index=self._index, item=begun),
            self._event("response.function_call_arguments.delta", **place, delta=arguments),
            self._event("response.function_call_arguments.done", **place, arguments=arguments, name=name),
            self._event("response.output_item.done", output_index=self._index, item=item),
        ]

    def _brought(self, frame: Frame) -> list[bytes]:
        closed = self._close_message()
        self._index += 1
        item = output_item(frame["tool_call_id"], frame["result"])
        kinds = ("response.output_item.added", "response.output_item.done")
        return [*closed, *(self._event(kind, output_index=self._index, item=item) for kind in kinds)]

    def _text_event(self, name: str, **fields: Any) -> bytes:
        return self._in_part(f"response.output_text.{name}", **fields)

    def _in_part(self, kind: str, /, **fields: Any) -> bytes:
        return self._event(kind, item_id=self._item, output_index=self._index, content_index=0, **fields)

    def _event(self, kind: str, /, **fields: Any) -> bytes:
        body = encode({"type": kind, "sequence_number": self._number, **fields})
        self._number += 1
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), body)
