"""OpenAI Chat Completions as a server writes it."""

from holdfast.chaos.answer import (
    AnswerEnding,
    AnswerPart,
    ProviderError,
    Reason,
    ReportedUsage,
    ScriptedAnswer,
)
from holdfast.chaos.frames import ChaosFrame, JsonObject, json_frame

_BY_STATUS: dict[int, tuple[str, str, str]] = {
    400: ("invalid_request_error", "", "The request is not valid."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("insufficient_permissions", "", "You are not allowed to do this."),
    404: ("invalid_request_error", "not_found", "There is nothing here."),
    413: ("invalid_request_error", "request_too_large", "The request is too large."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached. Please try again later."),
    503: ("service_unavailable_error", "service_unavailable", "The engine is currently overloaded."),
}


def openai_error(status: int, fault: ProviderError) -> JsonObject:
    """The inner error object for a status, with the fault's texts in place of the defaults."""
    kind, code, message = _BY_STATUS.get(status, ("server_error", "server_error", "The server had an error."))
    return {
        "message": fault.message or message,
        "type": fault.type or kind,
        "param": None,
        "code": fault.code or code or None,
    }


# A refusal in the `refusal` field ends with `stop`; only a filter ends with `content_filter`.
_FINISH: dict[Reason, str] = {
    "stop": "stop",
    "tools": "tool_calls",
    "length": "length",
    "filtered": "content_filter",
    "refused": "stop",
}


def _usage(usage: ReportedUsage) -> JsonObject:
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "audio_tokens": 0,
            "cache_write_tokens": usage.cache_written_tokens,
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning_tokens,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


class ChatCompletionsWire:
    """Writes one answer as chat.completion.chunk frames or as one chat.completion."""

    def __init__(self, answer: ScriptedAnswer) -> None:
        self.answer = answer

    def begin(self) -> list[ChaosFrame]:
        """The chunk that names the role."""
        return [self._delta({"role": "assistant", "content": "", "refusal": None})]

    def lifecycle(self) -> list[ChaosFrame]:
        """A chunk with an empty delta; this wire has no lifecycle events of its own."""
        return [self._delta({})]

    def ping(self) -> list[ChaosFrame]:
        """A comment, as proxies in front of this wire send it."""
        return [ChaosFrame(comment="keep-alive")]

    def open(self, part: AnswerPart) -> list[ChaosFrame]:
        """Only a tool call has an opening chunk here."""
        self.close()
        self.answer.parts.append(part)
        if part.kind != "call":
            return []
        part.call_id = part.call_id or f"call_{self.answer.number}_{self._call_index()}"
        opened: JsonObject = {
            "index": self._call_index(),
            "id": part.call_id,
            "type": "function",
            "function": {"name": part.name, "arguments": ""},
        }
        return [self._delta({"tool_calls": [opened]})]

    def delta(self, text: str) -> list[ChaosFrame]:
        """A chunk for the open part."""
        part = self.answer.open_part
        assert part is not None, "a delta needs an open part"
        part.pieces.append(text)
        match part.kind:
            case "text":
                return [self._delta({"content": text})]
            case "thinking":
                return [self._delta({"reasoning_content": text})]
            case "refusal":
                return [self._delta({"refusal": text})]
            case "call":
                call: JsonObject = {"index": self._call_index(), "function": {"arguments": text}}
                return [self._delta({"tool_calls": [call]})]

    def close(self) -> list[ChaosFrame]:
        """Parts have no closing chunk on this wire."""
        if (part := self.answer.open_part) is not None:
            part.is_closed = True
        return []

    def finish(self, ending: AnswerEnding) -> list[ChaosFrame]:
        """The chunk with the finish reason, the usage chunk if asked for, and the done line."""
        frames = [*self.close(), self._delta({}, _FINISH[ending.reason])]
        asked = self.answer.include_usage and ending.usage_chunk == "as asked"
        if asked or ending.usage_chunk == "always":
            frames.append(json_frame({**self._envelope(), "choices": [], "usage": _usage(ending.usage)}))
        if ending.done == "sent":
            frames.append(ChaosFrame(b"[DONE]"))
        return frames

    def error(self, fault: ProviderError) -> list[ChaosFrame]:
        """An error object in place of a chunk."""
        return [json_frame({"error": openai_error(500, fault)})]

    def error_body(self, status: int, fault: ProviderError) -> JsonObject:
        """The OpenAI error envelope."""
        return {"error": openai_error(status, fault)}

    def body(self, ending: AnswerEnding) -> JsonObject:
        """One chat.completion."""
        answer = self.answer
        message: JsonObject = {
            "role": "assistant",
            "content": answer.text_of("text") or None,
            "refusal": answer.text_of("refusal") or None,
            "annotations": [],
        }
        if reasoning := answer.text_of("thinking"):
            message["reasoning_content"] = reasoning
        if calls := [part for part in answer.parts if part.kind == "call"]:
            message["tool_calls"] = [
                {
                    "id": part.call_id,
                    "type": "function",
                    "function": {"name": part.name, "arguments": part.text},
                }
                for part in calls
            ]
        finish = _FINISH[ending.reason]
        choice: JsonObject = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        return {
            **self._envelope(),
            "object": "chat.completion",
            "choices": [choice],
            "usage": _usage(ending.usage),
        }

    def _call_index(self) -> int:
        return sum(part.kind == "call" for part in self.answer.parts) - 1

    def _envelope(self) -> JsonObject:
        return {
            "id": f"chatcmpl-chaos-{self.answer.number}",
            "object": "chat.completion.chunk",
            "created": self.answer.created_s,
            "model": self.answer.model,
            "service_tier": "default",
            "system_fingerprint": "fp_chaos",
        }

    def _delta(self, delta: JsonObject, finish_reason: str | None = None) -> ChaosFrame:
        choice: JsonObject = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        body = {**self._envelope(), "choices": [choice]}
        if self.answer.include_usage:
            body["usage"] = None
        return json_frame(body)
