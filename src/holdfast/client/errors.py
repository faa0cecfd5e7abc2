"""What can go wrong for a client: refused, unreachable, or answered by something else."""

import msgspec


class ClientError(Exception):
    """Anything that a caller of the client may have to handle."""


class Refused(ClientError):
    """The server said no; the fields are those of its error envelope."""

    def __init__(self, status: int, envelope: "Envelope", *, retry_after_s: float = 0.0) -> None:
        super().__init__(envelope.message)
        self.status = status
        self.message = envelope.message
        self.type = envelope.type
        self.param = envelope.param
        self.code = envelope.code
        self.retry_after_s = retry_after_s


class Unreachable(ClientError):
    """No server answered within the patience."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"no answer from {url} ({why})")
        self.url = url
        self.why = why


class BadAnswer(ClientError):
    """Something answered that does not speak this client's language."""


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """The inside of `{"error": …}`."""

    message: str = ""
    type: str = ""
    param: str | None = None
    code: str = ""


class _Enveloped(msgspec.Struct, frozen=True):
    error: Envelope


def refusal(status: int, body: bytes, *, retry_after: str) -> Refused:
    """The refusal in an answer; a body that is no envelope still gives one."""
    wait_s = float(retry_after) if retry_after.isascii() and retry_after.isdigit() else 0.0
    try:
        envelope = msgspec.json.decode(body, type=_Enveloped).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        envelope = Envelope(message=f"HTTP status {status} without a reason", code="no_envelope")
    return Refused(status, envelope, retry_after_s=min(wait_s, 60.0))
