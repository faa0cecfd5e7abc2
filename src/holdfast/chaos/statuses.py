"""Answers by status: any status, and the errors that providers actually send."""

import datetime as dt
from collections.abc import Mapping
from email.utils import format_datetime

import msgspec
from msgspec import Struct, field

from holdfast.chaos.answer import ProviderError
from holdfast.chaos.reply import ScriptedReply


class Status(Struct, frozen=True):
    """Any status with any headers; without a body, the wire's own error envelope with these words."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: str | None = None
    message: str = ""
    type: str = ""
    code: str = ""

    async def perform(self, reply: ScriptedReply, /) -> None:
        """Answer."""
        if self.body is not None:
            body = self.body.encode()
        else:
            fault = ProviderError(self.message, self.type, self.code)
            body = msgspec.json.encode(reply.wire.error_body(self.status, fault))
        await reply.send_status(self.status, dict(self.headers), body)


def rate_limited() -> Status:
    """A bare 429: no server time."""
    return Status(429)


def rate_limited_s(retry_after_s: float = 1) -> Status:
    """A 429 with Retry-After in seconds."""
    return Status(429, {"retry-after": f"{retry_after_s:g}"})


def rate_limited_ms(retry_after_ms: int = 250) -> Status:
    """A 429 with retry-after-ms."""
    return Status(429, {"retry-after-ms": str(retry_after_ms)})


def rate_limited_until(moment: dt.datetime) -> Status:
    """A 429 with Retry-After as an HTTP date (whole seconds, so the time is cut to one)."""
    return Status(429, {"retry-after": format_datetime(moment.astimezone(dt.UTC), usegmt=True)})


def rate_limited_reset(requests: str = "1s", tokens: str = "6m0s") -> Status:
    """A 429 with OpenAI's x-ratelimit-reset-* headers and no Retry-After."""
    return Status(
        429,
        {
            "x-ratelimit-limit-requests": "60",
            "x-ratelimit-remaining-requests": "0",
            "x-ratelimit-reset-requests": requests,
            "x-ratelimit-limit-tokens": "150000",
            "x-ratelimit-remaining-tokens": "0",
            "x-ratelimit-reset-tokens": tokens,
        },
    )


def insufficient_quota() -> Status:
    """The 429 that waiting doesn't fix."""
    message = "You exceeded your current quota, please check your plan and billing details."
    return Status(429, message=message, type="insufficient_quota", code="insufficient_quota")


def overloaded(status: int = 503) -> Status:
    """An overloaded server: 503, or Anthropic's 529."""
    return Status(status)


def overloaded_s(retry_after_s: float = 1) -> Status:
    """A 503 with Retry-After in seconds."""
    return Status(503, {"retry-after": f"{retry_after_s:g}"})


def loading() -> Status:
    """The 503 of a llama.cpp server that is still reading its model."""
    return Status(503, message="Loading model", type="unavailable_error")


def server_error(status: int = 500) -> Status:
    """A server error."""
    return Status(status)


def bad_key() -> Status:
    """A 401."""
    return Status(401)


def model_missing(model: str = "this model") -> Status:
    """A 404 that says that the model does not exist."""
    message = f"The model `{model}` does not exist or you do not have access to it."
    return Status(404, message=message, code="model_not_found")


def context_overflow() -> Status:
    """A 400 that says that the input is too long."""
    message = (
        "This model's maximum context length is 128000 tokens. Please reduce the length of the messages."
    )
    return Status(400, message=message, code="context_length_exceeded")


def too_large() -> Status:
    """A 413."""
    return Status(413)
