"""Errors of a client: refused, unreachable, or answered by something else."""

import msgspec

from holdfast.api.errors import ErrorDetail, ErrorEnvelope


class ClientError(Exception):
    """Anything that a caller of the client may have to handle."""


class Refused(ClientError):
    """The server refused the request; the fields are those of its error."""

    def __init__(self, status: int, error: ErrorDetail, *, retry_after_s: float = 0.0) -> None:
        super().__init__(error.message)
        self.status = status
        self.message = error.message
        self.type = error.type
        self.param = error.param
        self.code = error.code
        self.retry_after_s = retry_after_s


class Unreachable(ClientError):
    """No server answered within the patience."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"no answer from {url} ({why})")
        self.url = url
        self.why = why


class BadAnswer(ClientError):
    """Something answered that isn't a Holdfast server, or not one of a version this client knows."""


def refusal(status: int, body: bytes, *, retry_after: str) -> Refused:
    """The error in a response, even if its body isn't an error envelope."""
    wait_s = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
    try:
        error = msgspec.json.decode(body, type=ErrorEnvelope).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        error = ErrorDetail(message=f"HTTP status {status}, with no error message", code="no_envelope")
    return Refused(status, error, retry_after_s=min(wait_s, 60.0))
