"""OpenAI Responses as a server writes it."""

from holdfast.chaos.answer import (
    AnswerEnding,
    AnswerPart,
    ProviderError,
    Reason,
    ReportedUsage,
    ScriptedAnswer,
)
from holdfast.chaos.chat_completions import openai_error
from holdfast.chaos.frames import ChaosFrame, JsonObject, json_frame

_INCOMPLETE: dict[Reason, str] = {"length": "max_output_tokens", "filtered": "content_filter"}


def _usage(usage: ReportedUsage) -> JsonObject:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_written_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


class ResponsesWire:
    """Writes one answer as response.* events or as one response object."""

    def __init__(self, answer: ScriptedAnswer) -> None:
        self.answer = answer
        self._sequence = 0

    def begin(self) -> list[ChaosFrame]:
        """Created and in progress."""
        return [self._lifecycle("response.created"), self._lifecycle("response.in_progress")]

    def lifecycle(self) -> list[ChaosFrame]:
        """In progress, once more."""
        return [self._lifecycle("response.in_progress")]

    def ping(self) -> list[ChaosFrame]:
        """A comment; the protocol has no keep-alive event of its own."""
        return [ChaosFrame(comment="keep-alive")]

    def open(self, part: AnswerPart) -> list[ChaosFrame]:
        """The item, and its first content or summary part."""
        frames = self.close()
        self.answer.parts.append(part)
        if part.kind == "call":
            part.call_id = part.call_id or f"call_{self.answer.number}_{self._index}"
        item = self._item(part, self._index, status="in_progress", text="")
        frames.append(self._event("response.output_item.added", output_index=self._index, item=item))
        if part.kind in {"text", "refusal"}:
            frames.append(self._on_content("response.content_part.added", part=self._content(part, "")))
        return frames

    def delta(self, text: str) -> list[ChaosFrame]:
        """A delta of the open item."""
        part = self.answer.open_part
        assert part is not None, "a delta needs an open part"
        is_first = not part.pieces
        part.pieces.append(text)
        match part.kind:
            case "text":
                return [self._on_content("response.output_text.delta", delta=text, logprobs=[])]
            case "refusal":
                return [self._on_content("response.refusal.delta", delta=text)]
            case "call":
                return [self._on_item("response.function_call_arguments.delta", delta=text)]
            case "thinking":
                opening = [self._on_summary("part.added", part=_summary(""))] if is_first else []
                return [*opening, self._on_summary("text.delta", delta=text)]

    def close(self, status: str = "completed") -> list[ChaosFrame]:
        """The done events of the open item, innermost first."""
        part = self.answer.open_part
        if part is None:
            return []
        frames = self._inner_done(part)
        part.is_closed = True
        item = self._item(part, self._index, status=status, text=part.text)
        return [*frames, self._event("response.output_item.done", output_index=self._index, item=item)]

    def finish(self, ending: AnswerEnding) -> list[ChaosFrame]:
        """The terminal event, which carries the whole response."""
        response = self.body(ending)
        frames = self.close("incomplete" if ending.reason in _INCOMPLETE else "completed")
        return [*frames, self._event(f"response.{response['status']}", response=response)]

    def error(self, fault: ProviderError) -> list[ChaosFrame]:
        """An error event, then the failed response."""
        error = openai_error(500, fault)
        code, message = error["code"], error["message"]
        failed = {**self._response("failed"), "error": {"code": code, "message": message}}
        return [
            self._event("error", code=code, message=message, param=None),
            self._event("response.failed", response=failed),
        ]

    def error_body(self, status: int, fault: ProviderError) -> JsonObject:
        """The OpenAI error envelope."""
        return {"error": openai_error(status, fault)}

    def body(self, ending: AnswerEnding) -> JsonObject:
        """One response object."""
        incomplete = _INCOMPLETE.get(ending.reason)
        status = "incomplete" if incomplete else "completed"
        parts = self.answer.parts
        output = [
            self._item(part, index, status=status if part is parts[-1] else "completed", text=part.text)
            for index, part in enumerate(parts)
        ]
        return {
            **self._response(status),
            "incomplete_details": {"reason": incomplete} if incomplete else None,
            "output": output,
            "usage": _usage(ending.usage),
        }

    @property
    def _index(self) -> int:
        return len(self.answer.parts) - 1

    def _inner_done(self, part: AnswerPart) -> list[ChaosFrame]:
        text = part.text
        match part.kind:
            case "text":
                return [
                    self._on_content("response.output_text.done", text=text, logprobs=[]),
                    self._on_content("response.content_part.done", part=self._content(part, text)),
                ]
            case "refusal":
                return [
                    self._on_content("response.refusal.done", refusal=text),
                    self._on_content("response.content_part.done", part=self._content(part, text)),
                ]
            case "call":
                name = "response.function_call_arguments.done"
                return [self._on_item(name, name=part.name, arguments=text)]
            case "thinking" if text:
                return [
                    self._on_summary("text.done", text=text),
                    self._on_summary("part.done", part=_summary(text)),
                ]
            case "thinking":
                return []

    def _item(self, part: AnswerPart, index: int, *, status: str, text: str) -> JsonObject:
        item_id = self._item_id(part, index)
        match part.kind:
            case "text" | "refusal":
                content = [] if status == "in_progress" else [self._content(part, text)]
                message: JsonObject = {
                    "id": item_id,
                    "type": "message",
                    "status": status,
                    "role": "assistant",
                    "content": content,
                }
                return {**message, "phase": part.phase} if part.phase else message
            case "thinking":
                item: JsonObject = {
                    "id": item_id,
                    "type": "reasoning",
                    "summary": [_summary(text)] if text else [],
                }
                return {**item, "encrypted_content": part.encrypted} if part.encrypted else item
            case "call":
                return {
                    "id": item_id,
                    "type": "function_call",
                    "status": status,
                    "call_id": part.call_id,
                    "name": part.name,
                    "arguments": text,
                }

    def _item_id(self, part: AnswerPart, index: int) -> str:
        prefix = {"text": "msg", "refusal": "msg", "thinking": "rs", "call": "fc"}[part.kind]
        return f"{prefix}_chaos_{self.answer.number}_{index}"

    def _content(self, part: AnswerPart, text: str) -> JsonObject:
        if part.kind == "refusal":
            return {"type": "refusal", "refusal": text}
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}

    def _response(self, status: str) -> JsonObject:
        return {
            "id": f"resp_chaos_{self.answer.number}",
            "object": "response",
            "created_at": self.answer.created_s,
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": None,
            "model": self.answer.model,
            "output": [],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "default",
            "store": False,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": None,
            "metadata": {},
        }

    def _lifecycle(self, name: str) -> ChaosFrame:
        return self._event(name, response=self._response("in_progress"))

    def _on_item(self, event: str, /, **fields: object) -> ChaosFrame:
        item_id = self._item_id(self.answer.parts[-1], self._index)
        return self._event(event, item_id=item_id, output_index=self._index, **fields)

    def _on_content(self, event: str, /, **fields: object) -> ChaosFrame:
        return self._on_item(event, content_index=0, **fields)

    def _on_summary(self, event: str, /, **fields: object) -> ChaosFrame:
        return self._on_item(f"response.reasoning_summary_{event}", summary_index=0, **fields)

    def _event(self, event: str, /, **fields: object) -> ChaosFrame:
        body: JsonObject = {"type": event, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return json_frame(body, event)


def _summary(text: str) -> JsonObject:
    return {"type": "summary_text", "text": text}
