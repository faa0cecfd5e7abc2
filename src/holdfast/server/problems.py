"""Errors over HTTP, in one envelope: {"error": {"message", "type", "param", "code"}}."""

import logging
from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from starlette.exceptions import HTTPException

from holdfast.api.errors import ErrorDetail, ErrorEnvelope
from holdfast.codec import UnreadableEvent
from holdfast.interfaces.journal import (
    JournalError,
    OutcomeUnknown,
    StoreDamaged,
    StoreOverloaded,
    UnknownSession,
)

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode

# Clients react by type, so these are OpenAI's types.
_TYPES: Mapping[int, str] = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}
_SENTENCES = {
    HTTPStatus.NOT_FOUND: "Route not found",
    HTTPStatus.METHOD_NOT_ALLOWED: "This route doesn't support this method",
}


class Problem(Exception):
    """An error response that says what's wrong and what to do."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.headers = headers or {}

    @property
    def body(self) -> ErrorEnvelope:
        """The envelope."""
        kind = _TYPES.get(self.status, "invalid_request_error")
        if self.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            kind = "server_error"
        return ErrorEnvelope(ErrorDetail(message=self.message, type=kind, param=self.param, code=self.code))

    def encoded(self) -> bytes:
        """The envelope as bytes."""
        return _encode(self.body)


def bad_request(message: str, *, param: str | None = None, code: str = "invalid_request") -> Problem:
    """A bad request."""
    return Problem(400, message, code=code, param=param)


def run_not_found(run_id: str) -> Problem:
    """No such run, or none that this request applies to."""
    return Problem(404, f"Run not found: {run_id[:100]}", code="run_not_found", param="run_id")


def session_not_found(session_id: str) -> Problem:
    """No such session, or it is deleted."""
    return Problem(
        404, f"Session not found: {session_id[:100]}", code="session_not_found", param="session_id"
    )


def too_many(message: str, *, code: str, retry_after_s: int) -> Problem:
    """The server is busy; retry later."""
    return Problem(429, message, code=code, headers={"Retry-After": str(retry_after_s)})


def problem_of(error: Exception) -> Problem:
    """Any exception as a Problem; unexpected ones are logged in full and reported without details."""
    match error:
        case Problem():
            return error
        case HTTPException():
            status = HTTPStatus(error.status_code)
            sentence = _SENTENCES.get(status, status.phrase)
            return Problem(status, sentence, code=status.name.lower(), headers=error.headers)
        case StoreOverloaded():
            return Problem(
                503,
                "The store is overloaded with writes. Try again",
                code="store_overloaded",
                headers={"Retry-After": "1"},
            )
        case UnknownSession():
            return Problem(404, f"Session not found: {error}", code="session_not_found", param="session_id")
        case StoreDamaged():
            _log.error("the store failed a request: %s", error)
            text = f"Stored data can't be read: {error}. Run `holdfast doctor` for a fix"
            return Problem(500, text, code="store_damaged")
        case UnreadableEvent():
            _log.error("a stored event can't be read: %s: %s", error.where, error.reason)
            text = f"This version of Holdfast can't read the session: {error.where}: {error.reason}"
            return Problem(500, text, code="unreadable_event")
        case OutcomeUnknown():
            _log.error("the store left the outcome of a request unknown: %s", error)
            return Problem(
                504,
                f"Can't confirm that this was saved: {error}. "
                "Retry with the same Idempotency-Key. Without a key, check before retrying",
                code="outcome_unknown",
                # Without a key, the openai package would retry it automatically.
                headers={"Retry-After": "2", "X-Should-Retry": "false"},
            )
        case JournalError():
            _log.error("the store failed a request: %s", error)
            return Problem(
                503,
                f"The store is unavailable: {error}",
                code="store_unavailable",
                headers={"Retry-After": "2"},
            )
        case _:
            _log.error("a request failed because of a bug in Holdfast", exc_info=error)
            return Problem(
                500,
                "Internal error: this is a bug in Holdfast. See the server's log for details.",
                code="internal_error",
            )
