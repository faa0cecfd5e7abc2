"""How long each state of an attempt may be silent, why that long, and what moves it to the next state."""

import ipaddress
from collections.abc import Callable
from enum import StrEnum
from typing import Literal, TypeAlias

import msgspec

from holdfast.model_events import (
    ArgsPiece,
    ErrorReported,
    Finished,
    ItemClosed,
    ItemOpened,
    Lifecycle,
    ModelEvent,
    ReasoningPiece,
    TextPiece,
    TokensUsed,
)
from holdfast.targets import Patience
from holdfast.values import CloseReason

DeadlineKind: TypeAlias = Literal["connect", "upload", "first_event", "first_progress", "gap", "tail"]
Why: TypeAlias = Literal["default", "configured", "size", "learned", "cap", "gap", "ttfb_off", "woke"]

SIZED_TOKENS_MIN = 10_000
LEARNED_FACTOR = 3
TAIL_S = 1.0  # the marker has come: a connection that is kept is not worth a longer wait
REARM_S = 15.0
JUMP_S = 5.0  # clocks drift by less; a computer that slept was away for longer
LATE_S = 2.0  # a loop that is late by so much was held up: Ctrl-Z, a paused container


class Usual(msgspec.Struct, frozen=True, kw_only=True):
    """The lengths of silence that nobody had to configure."""

    connect_s: float
    upload_s: float
    first_event_s: float
    first_event_cap_s: float
    first_progress_s: float
    first_progress_reasoning_s: float
    gap_s: float
    size_base_s: float
    size_s_per_1000: float


REMOTE = Usual(
    connect_s=10,
    upload_s=20,
    first_event_s=45,
    first_event_cap_s=180,
    first_progress_s=300,
    first_progress_reasoning_s=900,
    gap_s=120,
    size_base_s=20,
    size_s_per_1000=1,
)
LOCAL = Usual(
    connect_s=5,
    upload_s=20,
    first_event_s=300,
    first_event_cap_s=900,
    first_progress_s=900,
    first_progress_reasoning_s=900,
    gap_s=300,
    size_base_s=300,
    size_s_per_1000=4,
)


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What patience depends on besides the configuration: who is asked for how much, what was seen."""

    local: bool
    input_tokens: int
    reasoning: bool = False
    learned_p95_s: float | None = None


class Limit(msgspec.Struct, frozen=True):
    """A length of silence, which watchdog it belongs to, and what decided it; 0 is off."""

    kind: DeadlineKind
    patience_s: float
    why: Why


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """The effective patience of one attempt.

    With the first-event watchdog off, `first_event` holds the first-progress limit: no wait is endless.
    """

    connect: Limit
    upload: Limit
    first_event: Limit
    first_progress: Limit
    gap: Limit
    tail: Limit = Limit("tail", TAIL_S, "default")


def effective(patience: Patience, asked: RequestFacts) -> Deadlines:
    """The patience that counts for this request."""
    usual = LOCAL if asked.local else REMOTE
    own_progress = _plain("first_progress", patience.first_progress_s, _usual_progress_s(usual, asked))
    return Deadlines(
        connect=_plain("connect", patience.connect_s, usual.connect_s),
        upload=_plain("upload", patience.upload_s, usual.upload_s),
        first_event=_first_event(patience, asked, usual=usual) or _unheard(own_progress),
        first_progress=_bounded(own_progress, patience),
        gap=_plain("gap", patience.gap_s, usual.gap_s),
    )


def _plain(kind: DeadlineKind, given_s: float | None, usual_s: float) -> Limit:
    return Limit(kind, usual_s, "default") if given_s is None else Limit(kind, given_s, "configured")


def _usual_progress_s(usual: Usual, asked: RequestFacts) -> float:
    return usual.first_progress_reasoning_s if asked.reasoning else usual.first_progress_s


def _bounded(own: Limit, patience: Patience) -> Limit:
    """Whoever sets the gap means every silence after the first byte, unless they say otherwise."""
    if own.why == "default" and patience.gap_s and patience.gap_s < own.patience_s:
        return Limit("first_progress", patience.gap_s, "gap")
    return own


def _unheard(own_progress: Limit) -> Limit:
    return Limit("first_progress", own_progress.patience_s, "ttfb_off")


def _first_event(patience: Patience, asked: RequestFacts, *, usual: Usual) -> Limit | None:
    """F, raised by size and by what was learned as far as the cap allows; None if it is switched off."""
    given = patience.first_event_s
    if given == 0:
        return None
    limit = _plain("first_event", given, usual.first_event_s)
    for raised in (_by_size(patience, asked, usual=usual), _by_learning(patience, asked)):
        if raised is not None and raised.patience_s > limit.patience_s:
            limit = raised
    if patience.first_event_cap_s is None:
        # The usual cap holds back what was added, never the F that it was added to.
        floor_s = usual.first_event_s if given is None else given
        cap_s = max(floor_s, usual.first_event_cap_s)
        return Limit("first_event", cap_s, limit.why) if limit.patience_s > cap_s else limit
    cap_s = patience.first_event_cap_s
    return Limit("first_event", cap_s, "cap") if 0 < cap_s < limit.patience_s else limit


def _by_size(patience: Patience, asked: RequestFacts, *, usual: Usual) -> Limit | None:
    if patience.strict or asked.input_tokens < SIZED_TOKENS_MIN:
        return None
    sized_s = usual.size_base_s + usual.size_s_per_1000 * (asked.input_tokens // 1000)
    return Limit("first_event", sized_s, "size")


def _by_learning(patience: Patience, asked: RequestFacts) -> Limit | None:
    if patience.strict or patience.first_event_s is not None or asked.learned_p95_s is None:
        return None
    return Limit("first_event", round(LEARNED_FACTOR * asked.learned_p95_s, 1), "learned")


class State(StrEnum):
    """Where an attempt is."""

    CONNECTING = "connecting"
    UPLOADING = "uploading"
    WAITING = "waiting"  # sent, nothing heard
    BEGUN = "begun"  # something heard, nothing produced
    STREAMING = "streaming"
    OPENED = "opened"  # streaming, and the last thing opened has produced nothing yet
    ENDING = "ending"  # the terminal marker came, the end of the stream did not


class Sign(StrEnum):
    """What an attempt hears: of its connection, or of the model."""

    CONNECTED = "connected"
    ACCEPTED = "accepted"  # the peer took more bytes of the request
    SENT = "sent"
    ALIVE = "alive"  # the line is alive; the work need not advance
    OPENING = "opening"  # silent thinking may follow, and is healthy
    PROGRESS = "progress"
    MARKER = "marker"


_HEARD = {
    Sign.ALIVE: State.BEGUN,
    Sign.OPENING: State.BEGUN,
    Sign.PROGRESS: State.STREAMING,
    Sign.MARKER: State.ENDING,
}

# A sign missing from a row moves nothing: a late word of the upload, a keep-alive.
TRANSITIONS: dict[State, dict[Sign, State]] = {
    State.CONNECTING: {Sign.CONNECTED: State.UPLOADING},
    State.UPLOADING: {Sign.ACCEPTED: State.UPLOADING, Sign.SENT: State.WAITING, **_HEARD},
    State.WAITING: _HEARD,
    State.BEGUN: {Sign.PROGRESS: State.STREAMING, Sign.MARKER: State.ENDING},
    State.STREAMING: {Sign.PROGRESS: State.STREAMING, Sign.OPENING: State.OPENED, Sign.MARKER: State.ENDING},
    State.OPENED: {Sign.PROGRESS: State.STREAMING, Sign.MARKER: State.ENDING},
    State.ENDING: {},
}

PIECES = (TextPiece, ReasoningPiece, ArgsPiece)
SIGNS: dict[type[ModelEvent], Sign] = {
    Lifecycle: Sign.ALIVE,
    TokensUsed: Sign.ALIVE,
    ItemOpened: Sign.OPENING,
    TextPiece: Sign.PROGRESS,
    ReasoningPiece: Sign.PROGRESS,
    ArgsPiece: Sign.PROGRESS,
    ItemClosed: Sign.PROGRESS,
    ErrorReported: Sign.MARKER,
    Finished: Sign.MARKER,
}

CLOSE_REASONS: dict[DeadlineKind, CloseReason] = {
    "connect": "connect_kill",
    "upload": "upload_kill",
    "first_event": "ttfb_kill",
    "first_progress": "stream_idle_kill",
    "gap": "stream_idle_kill",
    "tail": "done",
}

_SAYS: dict[DeadlineKind, str] = {
    "connect": "connection",
    "upload": "upload",
    "first_event": "first event",
    "first_progress": "first progress",
    "gap": "next progress",
    "tail": "end of the stream",
}
WHY_TEXT: dict[Why, str] = {
    "default": "",
    "configured": "as configured",
    "size": "raised for a request of this size",
    "learned": "raised by what this target usually takes",
    "cap": "capped by the operator at {patience} s",
    "gap": "bounded by gap_s",
    "ttfb_off": "the first-event watchdog is off",
    "woke": "counted anew after this computer or program was held up",
}


LIMITS: dict[State, Callable[[Deadlines], Limit]] = {
    State.CONNECTING: lambda deadlines: deadlines.connect,
    State.UPLOADING: lambda deadlines: deadlines.upload,
    State.WAITING: lambda deadlines: deadlines.first_event,
    State.BEGUN: lambda deadlines: deadlines.first_progress,
    State.STREAMING: lambda deadlines: deadlines.gap,
    State.OPENED: lambda deadlines: deadlines.first_progress,
    State.ENDING: lambda deadlines: deadlines.tail,
}


class Watch(msgspec.Struct, frozen=True):
    """An attempt as its watchdog sees it; times are of the monotonic clock."""

    deadlines: Deadlines
    state: State
    since_s: float
    rearmed: Limit | None = None


class Deadline(msgspec.Struct, frozen=True, kw_only=True):
    """A point in time, the patience that led to it, and the words for both."""

    at_s: float
    kind: DeadlineKind
    patience_s: float
    why: Why
    says: str


class ClockReading(msgspec.Struct, frozen=True):
    """A clock that stands still while the computer sleeps and one that does not, read together."""

    mono_s: float
    steady_s: float


def begin(deadlines: Deadlines, now_s: float) -> Watch:
    """The watch of an attempt that starts to connect."""
    return Watch(deadlines, State.CONNECTING, now_s)


def sign_of(event: ModelEvent) -> Sign:
    """What an event means for the watchdog; an empty piece and an opened text are signs of life alone."""
    if isinstance(event, PIECES):
        return Sign.PROGRESS if event.text else Sign.ALIVE
    if isinstance(event, ItemOpened) and event.kind == "text":
        return Sign.ALIVE
    return SIGNS[type(event)]


def step(watch: Watch, sign: Sign, *, now_s: float) -> Watch:
    """The watch after a sign; a sign without a place in the row re-arms nothing."""
    state = TRANSITIONS[watch.state].get(sign)
    return watch if state is None else Watch(watch.deadlines, state, now_s)


def next_deadline(watch: Watch) -> Deadline | None:
    """The one deadline of the state, None if its watchdog is off."""
    limit = watch.rearmed or LIMITS[watch.state](watch.deadlines)
    if limit.patience_s <= 0:
        return None
    why = WHY_TEXT[limit.why].format(patience=f"{limit.patience_s:g}")
    return Deadline(
        at_s=watch.since_s + limit.patience_s,
        kind=limit.kind,
        patience_s=limit.patience_s,
        why=limit.why,
        says=f"{_SAYS[limit.kind]} within {limit.patience_s:g} s" + (f" ({why})" if why else ""),
    )


def due_s(watch: Watch) -> float | None:
    """When the deadline of the state is, without its words; None if its watchdog is off."""
    limit = watch.rearmed or LIMITS[watch.state](watch.deadlines)
    return watch.since_s + limit.patience_s if limit.patience_s > 0 else None


def wake(watch: Watch, *, armed: ClockReading, woke: ClockReading) -> Watch | Deadline:
    """What a timer that went off means: the deadline that has passed, or the watch to go on with.

    After a sleep of the computer the peer had no chance to be heard, so what is left of the wait is at least
    a short while. So it is for a program that was held up: what came meanwhile is still unread. That it is
    slow all the time is no reason to count anew for ever. A timer may go off before its deadline, and must
    not forget a sleep then.
    """
    deadline = next_deadline(watch)
    if deadline is None:
        return watch
    left_s = deadline.at_s - woke.mono_s
    slept_s = (woke.steady_s - armed.steady_s) - (woke.mono_s - armed.mono_s)
    again_s = min(REARM_S, deadline.patience_s)
    late_s_max = JUMP_S if watch.rearmed else LATE_S
    if (slept_s > JUMP_S or -left_s > late_s_max) and left_s < again_s:
        return Watch(watch.deadlines, watch.state, woke.mono_s, Limit(deadline.kind, again_s, "woke"))
    return deadline if left_s <= 0 else watch


LOCAL_SUFFIXES = (".home.arpa", ".internal", ".lan", ".local", ".localhost")
SHARED = ipaddress.ip_network("100.64.0.0/10")  # carrier-grade and overlay networks: never public


def is_local(host: str) -> bool:
    """Whether a host of a URL is this machine or a private network; a name without a dot is one."""
    name = host.strip().strip("[]").rstrip(".").lower()
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return bool(name) and ("." not in name or name.endswith(LOCAL_SUFFIXES))
    if isinstance(address, ipaddress.IPv6Address):
        address = address.ipv4_mapped or address
    return (
        address.is_private
        or address.is_link_local
        or (address.version == SHARED.version and address in SHARED)
    )
