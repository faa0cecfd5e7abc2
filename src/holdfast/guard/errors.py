"""Errors of the guard: each is also an httpx2 error, so that packages retry it like any other."""

import httpx2
from msgspec.structs import replace

from holdfast.decisions.deadlines import CLOSE_REASONS, Deadline, DeadlineKind
from holdfast.decisions.failure_rules import Stage
from holdfast.decisions.failure_texts import deadline_text
from holdfast.decisions.failures import Facts, classify
from holdfast.targets import Target
from holdfast.values import CloseReason, Failure


class GuardError(httpx2.TransportError):
    """The guard ended an exchange; `deadline` is None unless one had passed."""

    def __init__(
        self, failure: Failure, *, close_reason: CloseReason, deadline: Deadline | None = None
    ) -> None:
        super().__init__(failure.text)
        self.failure = failure
        self.close_reason = close_reason
        self.deadline = deadline

    def __reduce__(self) -> "tuple[object, ...]":
        return _remade, (type(self), self.failure, self.close_reason, self.deadline)


class NotConnected(GuardError, httpx2.ConnectTimeout):
    """No connection in time."""


class UploadStalled(GuardError, httpx2.WriteTimeout):
    """The peer stopped taking the request."""


class NoFirstEvent(GuardError, httpx2.ReadTimeout):
    """The request was sent, and no answer began in time."""


class Stalled(GuardError, httpx2.ReadTimeout):
    """The answer stopped making progress."""


class Dropped(GuardError, httpx2.RemoteProtocolError):
    """The peer closed the connection before the answer was complete."""


class Reset(GuardError, httpx2.ReadError):
    """The connection broke while the answer was awaited or read."""


class UploadReset(GuardError, httpx2.WriteError):
    """The connection broke while the request was being sent."""


_ERRORS: dict[DeadlineKind, type[GuardError]] = {
    "connect": NotConnected,
    "upload": UploadStalled,
    "first_event": NoFirstEvent,
    "first_progress": Stalled,
    "gap": Stalled,
}


_BROKEN: dict[type[httpx2.TransportError], type[GuardError]] = {
    httpx2.ReadError: Reset,
    httpx2.WriteError: UploadReset,
    httpx2.RemoteProtocolError: Dropped,
}
_BROKE: dict[type[GuardError], str] = {
    Reset: "the connection was reset before the answer was complete",
    UploadReset: "the connection was reset while the request was being sent",
    Dropped: "the connection was closed before the answer was complete",
}


def cause_of(error: BaseException | None) -> GuardError | None:
    """The guard's error behind an error of a package that wraps what its transport raises."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, GuardError):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def killed(deadline: Deadline, stage: Stage, *, url: httpx2.URL) -> GuardError:
    """The error for a deadline that has passed."""
    failure = _failure(
        Facts(stage=stage, now_ms=0, deadline=deadline), url, text=deadline_text(deadline, stage)
    )
    return _ERRORS[deadline.kind](failure, close_reason=CLOSE_REASONS[deadline.kind], deadline=deadline)


def dropped(url: httpx2.URL) -> Dropped:
    """The error for a stream that ended too soon."""
    text = "the stream ended without its terminal marker: the answer is incomplete"
    facts = Facts(stage="streaming", now_ms=0, broke="eof")
    return Dropped(_failure(facts, url, text=text), close_reason="peer")


def broken(error: httpx2.TransportError, stage: Stage, *, url: httpx2.URL) -> GuardError | None:
    """The error for a connection that the peer broke; None for any other error."""
    kind = next((kind for broke, kind in _BROKEN.items() if isinstance(error, broke)), None)
    if kind is None or isinstance(error, GuardError):
        return None
    said = f" ({error})" if str(error) else ""
    failure = _failure(Facts(stage=stage, now_ms=0, broke="reset"), url, text=f"{_BROKE[kind]}{said}")
    return kind(failure, close_reason="peer")


def _failure(facts: Facts, url: httpx2.URL, *, text: str) -> Failure:
    """Classified by the table that all of Holdfast uses."""
    target = Target(name=url.host, wire="chat", base_url=str(url), model="")
    return replace(classify(facts, target).failure, text=f"{url.host}: {text}")


def _remade(
    kind: type[GuardError], failure: Failure, close_reason: CloseReason, deadline: Deadline | None
) -> GuardError:
    return kind(failure, close_reason=close_reason, deadline=deadline)
