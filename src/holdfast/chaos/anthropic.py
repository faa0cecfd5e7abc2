"""Anthropic Messages as a server writes it."""

import msgspec

from holdfast.chaos.answer import (
    AnswerEnding,
    AnswerPart,
    ProviderError,
    Reason,
    ReportedUsage,
    ScriptedAnswer,
)
from holdfast.chaos.frames import ChaosFrame, JsonObject, json_frame

_STOP: dict[Reason, str] = {
    "stop": "end_turn",
    "tools": "tool_use",
    "length": "max_tokens",
    "filtered": "refusal",
    "refused": "refusal",
}
_ERRORS: dict[int, tuple[str, str]] = {
    400: ("invalid_request_error", "The request is not valid."),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "Your credit balance is too low."),
    403: ("permission_error", "Your API key does not have permission to use this resource."),
    404: ("not_found_error", "The requested resource could not be found."),
    413: ("request_too_large", "Request exceeds the maximum size"),
    429: ("rate_limit_error", "This request would exceed your rate limit."),
    504: ("timeout_error", "The request took too long."),
    503: ("overloaded_error", "Overloaded"),
    529: ("overloaded_error", "Overloaded"),
}


def _usage(usage: ReportedUsage) -> JsonObject:
    # On this wire `input_tokens` counts only what the cache neither held nor took in.
    return {
        "input_tokens": max(0, usage.input_tokens - usage.cached_tokens - usage.cache_written_tokens),
        "cache_creation_input_tokens": usage.cache_written_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    }


def _arguments(text: str) -> object:
    try:
        return msgspec.json.decode(text or "{}")
    except msgspec.DecodeError:
        # A complete message can't contain arguments that were cut off: there, the input is an object.
        return {}


class AnthropicWire:
    """Writes one answer as message_start … message_stop frames or as one message."""

    def __init__(self, answer: ScriptedAnswer) -> None:
        self.answer = answer

    def begin(self) -> list[ChaosFrame]:
        """The message_start event."""
        usage = {**_usage(self.answer.usage), "output_tokens": 1, "service_tier": "standard"}
        return [self._event("message_start", message=self._message([], stop_reason=None, usage=usage))]

    def lifecycle(self) -> list[ChaosFrame]:
        """A ping; this wire has no lifecycle event that may be repeated."""
        return self.ping()

    def ping(self) -> list[ChaosFrame]:
        """A ping event."""
        return [self._event("ping")]

    def open(self, part: AnswerPart) -> list[ChaosFrame]:
        """A content_block_start event."""
        closing = self.close()
        self.answer.parts.append(part)
        index = len(self.answer.parts) - 1
        if part.kind == "call":
            part.call_id = part.call_id or f"toolu_{self.answer.number}_{index}"
        block = self._block(part, is_start=True)
        return [*closing, self._event("content_block_start", index=index, content_block=block)]

    def delta(self, text: str) -> list[ChaosFrame]:
        """A content_block_delta event."""
        part = self.answer.open_part
        assert part is not None, "a delta needs an open part"
        part.pieces.append(text)
        delta: JsonObject
        match part.kind:
            case "text" | "refusal":
                delta = {"type": "text_delta", "text": text}
            case "thinking":
                delta = {"type": "thinking_delta", "thinking": text}
            case "call":
                delta = {"type": "input_json_delta", "partial_json": text}
        return [self._event("content_block_delta", index=len(self.answer.parts) - 1, delta=delta)]

    def close(self) -> list[ChaosFrame]:
        """The signature of a thinking block, and content_block_stop."""
        part = self.answer.open_part
        if part is None:
            return []
        part.is_closed = True
        index = len(self.answer.parts) - 1
        frames: list[ChaosFrame] = []
        if part.kind == "thinking" and part.signature:
            signed: JsonObject = {"type": "signature_delta", "signature": part.signature}
            frames.append(self._event("content_block_delta", index=index, delta=signed))
        return [*frames, self._event("content_block_stop", index=index)]

    def finish(self, ending: AnswerEnding) -> list[ChaosFrame]:
        """The message_delta with stop reason and usage, and message_stop."""
        delta: JsonObject = {"stop_reason": _STOP[ending.reason], "stop_sequence": None}
        if delta["stop_reason"] == "refusal":
            delta["stop_details"] = self._refusal()
        frames = [*self.close(), self._event("message_delta", delta=delta, usage=_usage(ending.usage))]
        if ending.done == "sent":
            frames.append(self._event("message_stop"))
        return frames

    def error(self, fault: ProviderError) -> list[ChaosFrame]:
        """An error event."""
        return [json_frame(self.error_body(529, fault), "error")]

    def error_body(self, status: int, fault: ProviderError) -> JsonObject:
        """The Anthropic error envelope."""
        kind, message = _ERRORS.get(status, ("api_error", "Internal server error"))
        error: JsonObject = {"type": fault.type or kind, "message": fault.message or message}
        return {"type": "error", "error": error, "request_id": f"req_chaos_{self.answer.number}"}

    def body(self, ending: AnswerEnding) -> JsonObject:
        """One message."""
        content = [self._block(part, is_start=False) for part in self.answer.parts]
        usage = {**_usage(ending.usage), "service_tier": "standard"}
        message = self._message(content, stop_reason=_STOP[ending.reason], usage=usage)
        if message["stop_reason"] == "refusal":
            message["stop_details"] = self._refusal()
        return message

    def _refusal(self) -> JsonObject:
        return {
            "type": "refusal",
            "category": None,
            "explanation": self.answer.text_of("refusal") or None,
        }

    def _block(self, part: AnswerPart, *, is_start: bool) -> JsonObject:
        text = "" if is_start else part.text
        match part.kind:
            case "text" | "refusal":
                return {"type": "text", "text": text}
            case "thinking" if part.encrypted:
                return {"type": "redacted_thinking", "data": part.encrypted}
            case "thinking":
                signature = "" if is_start else part.signature
                return {"type": "thinking", "thinking": text, "signature": signature}
            case "call":
                return {"type": "tool_use", "id": part.call_id, "name": part.name, "input": _arguments(text)}

    def _message(
        self, content: list[JsonObject], *, stop_reason: str | None, usage: JsonObject
    ) -> JsonObject:
        return {
            "id": f"msg_chaos_{self.answer.number}",
            "type": "message",
            "role": "assistant",
            "model": self.answer.model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": usage,
        }

    def _event(self, name: str, **fields: object) -> ChaosFrame:
        return json_frame({"type": name, **fields}, name)
