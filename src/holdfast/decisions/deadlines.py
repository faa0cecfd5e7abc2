"""How long each state of an attempt may be silent, why, and what moves it to the next state."""

import ipaddress
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import Literal, TypeAlias

import msgspec

from holdfast.model_events import (
    PIECES,
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
Why: TypeAlias = Literal[
    "default", "configured", "size", "learned", "usual", "cap", "gap", "whole", "ttfb_off", "woke"
]

SIZED_TOKENS_MIN = 10_000
LEARNED_FACTOR = 3
WHOLE_TOKENS = 8_192  # of an answer that is not streamed, if the request sets no limit
TAIL_S = 1.0  # the answer is complete, so a reusable connection isn't worth a longer wait
REARM_S = 15.0
JUMP_S = 5.0  # clocks drift less than this; a computer that slept was away for longer
LATE_S = 2.0  # a loop this late was suspended: Ctrl-Z, a paused container


class DefaultPatience(msgspec.Struct, frozen=True, kw_only=True):
    """The default lengths of silence."""

    connect_s: float
    upload_s: float
    first_event_s: float
    first_event_cap_s: float
    first_progress_s: float
    first_progress_reasoning_s: float
    gap_s: float
    size_base_s: float
    size_s_per_1000: float
    s_per_output_token: float  # of a slow model


REMOTE = DefaultPatience(
    connect_s=10,
    upload_s=20,
    first_event_s=45,
    first_event_cap_s=180,
    first_progress_s=300,
    first_progress_reasoning_s=900,
    gap_s=120,
    size_base_s=20,
    size_s_per_1000=1,
    s_per_output_token=0.04,
)
LOCAL = DefaultPatience(
    connect_s=5,
    upload_s=20,
    first_event_s=300,
    first_event_cap_s=900,
    first_progress_s=900,
    first_progress_reasoning_s=900,
    gap_s=300,
    size_base_s=300,
    size_s_per_1000=4,
    s_per_output_token=0.2,
)


class RequestFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs of patience besides the configuration: the target, the request's size, past calls.

    An answer that isn't streamed arrives as a whole, so there is no sign of progress before it's complete.
    """

    local: bool
    input_tokens: int
    reasoning: bool = False
    streamed: bool = True
    output_tokens_max: int = 0  # that the request allows; 0 if it doesn't say
    learned_p95_s: float | None = None
    usual_s: float | None = None  # the p95 if many requests of this size were answered; None for a retry


class Limit(msgspec.Struct, frozen=True):
    """A length of silence, the watchdog it belongs to, and what determined it; 0 means off."""

    kind: DeadlineKind
    patience_s: float
    why: Why


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """The effective patience of one attempt.

    With the first-event watchdog off, `first_event` has the first-progress limit: no wait is endless.
    """

    connect: Limit
    upload: Limit
    first_event: Limit
    first_progress: Limit
    gap: Limit
    tail: Limit = Limit("tail", TAIL_S, "default")


def effective(patience: Patience, asked: RequestFacts) -> Deadlines:
    """The patience that applies to this request."""
    defaults = LOCAL if asked.local else REMOTE
    own_progress = _plain("first_progress", patience.first_progress_s, _default_progress_s(defaults, asked))
    first_event = _first_event(patience, asked, defaults=defaults)
    if not asked.streamed:
        first_event = _whole(first_event, own_progress, asked=asked, defaults=defaults)
    return Deadlines(
        connect=_plain("connect", patience.connect_s, defaults.connect_s),
        upload=_plain("upload", patience.upload_s, defaults.upload_s),
        first_event=first_event or _unheard(own_progress),
        first_progress=_bounded(own_progress, patience),
        gap=_plain("gap", patience.gap_s, defaults.gap_s),
    )


def _plain(kind: DeadlineKind, given_s: float | None, usual_s: float) -> Limit:
    return Limit(kind, usual_s, "default") if given_s is None else Limit(kind, given_s, "configured")


def _default_progress_s(defaults: DefaultPatience, asked: RequestFacts) -> float:
    is_long = asked.reasoning or not asked.streamed
    return defaults.first_progress_reasoning_s if is_long else defaults.first_progress_s


def _bounded(own: Limit, patience: Patience) -> Limit:
    """A configured gap applies to every silence after the first byte, unless first progress has its own."""
    if own.why == "default" and patience.gap_s and patience.gap_s < own.patience_s:
        return Limit("first_progress", patience.gap_s, "gap")
    return own


def _unheard(own_progress: Limit) -> Limit:
    return Limit("first_progress", own_progress.patience_s, "ttfb_off")


def _whole(
    first_event: Limit | None, own_progress: Limit, *, asked: RequestFacts, defaults: DefaultPatience
) -> Limit | None:
    """The limit for an answer that arrives as a whole: for its beginning, and for all its tokens.

    None if only the limit for first progress applies: it was configured, or the model may think in silence.
    """
    if first_event is None or asked.reasoning or own_progress.why == "configured":
        return None
    tokens = asked.output_tokens_max or WHOLE_TOKENS
    whole_s = first_event.patience_s + round(tokens * defaults.s_per_output_token, 1)
    if not own_progress.patience_s or whole_s < own_progress.patience_s:
        return Limit("first_event", whole_s, "whole")
    return None


def _first_event(patience: Patience, asked: RequestFacts, *, defaults: DefaultPatience) -> Limit | None:
    """The first-event limit, raised by size and learning up to the cap; None if it is switched off."""
    given = patience.first_event_s
    if given == 0:
        return None
    limit = _plain("first_event", given, defaults.first_event_s)
    for raised in (_by_size(patience, asked, defaults=defaults), _by_learning(patience, asked)):
        if raised is not None and raised.patience_s > limit.patience_s:
            limit = raised
    usual = _by_experience(patience, asked)
    if usual is not None and usual.patience_s < limit.patience_s:
        limit = usual
    if patience.first_event_cap_s is None:
        # The default cap limits what was added, but never the base value itself.
        floor_s = defaults.first_event_s if given is None else given
        cap_s = max(floor_s, defaults.first_event_cap_s)
        return Limit("first_event", cap_s, limit.why) if limit.patience_s > cap_s else limit
    cap_s = patience.first_event_cap_s
    return Limit("first_event", cap_s, "cap") if 0 < cap_s < limit.patience_s else limit


def _by_size(patience: Patience, asked: RequestFacts, *, defaults: DefaultPatience) -> Limit | None:
    if patience.strict or asked.input_tokens < SIZED_TOKENS_MIN:
        return None
    sized_s = defaults.size_base_s + defaults.size_s_per_1000 * (asked.input_tokens // 1000)
    return Limit("first_event", sized_s, "size")


def _by_learning(patience: Patience, asked: RequestFacts) -> Limit | None:
    if patience.strict or patience.first_event_s is not None or asked.learned_p95_s is None:
        return None
    return Limit("first_event", round(LEARNED_FACTOR * asked.learned_p95_s, 1), "learned")


def _by_experience(patience: Patience, asked: RequestFacts) -> Limit | None:
    """A limit from measured latency, below the defaults. A retry gets the defaults, to let a model load."""
    if patience.strict or asked.usual_s is None:
        return None
    floor_s = REMOTE.first_event_s if patience.first_event_s is None else patience.first_event_s
    return Limit("first_event", max(floor_s, round(LEARNED_FACTOR * asked.usual_s, 1)), "usual")


class State(StrEnum):
    """The state of an attempt."""

    CONNECTING = "connecting"
    UPLOADING = "uploading"
    WAITING = "waiting"  # sent, nothing received
    BEGUN = "begun"  # something received, nothing produced
    STREAMING = "streaming"
    OPENED = "opened"  # streaming, but the last opened item has produced nothing yet
    ENDING = "ending"  # the terminal marker has arrived, the end of the stream hasn't


class Sign(StrEnum):
    """A signal that an attempt receives, from its connection or from the model."""

    CONNECTED = "connected"
    ACCEPTED = "accepted"  # the peer accepted more bytes of the request
    SENT = "sent"
    ALIVE = "alive"  # the connection is alive, without any progress
    OPENING = "opening"  # silent thinking may follow, which is healthy
    PROGRESS = "progress"
    MARKER = "marker"


_HEARD = {
    Sign.ALIVE: State.BEGUN,
    Sign.OPENING: State.BEGUN,
    Sign.PROGRESS: State.STREAMING,
    Sign.MARKER: State.ENDING,
}

# A sign missing from a row changes nothing, such as a late upload report or a keep-alive.
TRANSITIONS: dict[State, dict[Sign, State]] = {
    State.CONNECTING: {Sign.CONNECTED: State.UPLOADING},
    State.UPLOADING: {Sign.ACCEPTED: State.UPLOADING, Sign.SENT: State.WAITING, **_HEARD},
    State.WAITING: _HEARD,
    State.BEGUN: {Sign.PROGRESS: State.STREAMING, Sign.MARKER: State.ENDING},
    State.STREAMING: {Sign.PROGRESS: State.STREAMING, Sign.OPENING: State.OPENED, Sign.MARKER: State.ENDING},
    State.OPENED: {Sign.PROGRESS: State.STREAMING, Sign.MARKER: State.ENDING},
    State.ENDING: {},
}

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
    "learned": "raised to fit this target's usual latency",
    "usual": "shortened to fit this target's usual latency",
    "cap": "capped by the operator at {patience} s",
    "gap": "bounded by gap_s",
    "whole": "the answer is not streamed",
    "ttfb_off": "the first-event watchdog is off",
    "woke": "restarted after this computer or program was suspended",
}


LIMITS: dict[State, Callable[[Deadlines], Limit]] = {
    State.CONNECTING: attrgetter("connect"),
    State.UPLOADING: attrgetter("upload"),
    State.WAITING: attrgetter("first_event"),
    State.BEGUN: attrgetter("first_progress"),
    State.STREAMING: attrgetter("gap"),
    State.OPENED: attrgetter("first_progress"),
    State.ENDING: attrgetter("tail"),
}


class Watch(msgspec.Struct, frozen=True):
    """An attempt as its watchdog sees it; times are on the monotonic clock."""

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
    """A clock that stops while the computer sleeps and one that doesn't, read together."""

    mono_s: float
    steady_s: float


def begin(deadlines: Deadlines, now_s: float) -> Watch:
    """The watch of an attempt that starts to connect."""
    return Watch(deadlines, State.CONNECTING, now_s)


def sign_of(event: ModelEvent) -> Sign:
    """Classify an event for the watchdog. An empty delta or an opened text only shows that it's alive."""
    if isinstance(event, PIECES):
        return Sign.PROGRESS if event.text else Sign.ALIVE
    if isinstance(event, ItemOpened) and event.kind == "text":
        return Sign.ALIVE
    return SIGNS[type(event)]


def step(watch: Watch, sign: Sign, *, now_s: float) -> Watch:
    """The watch after a sign; a sign that isn't in the state's row re-arms nothing."""
    state = TRANSITIONS[watch.state].get(sign)
    return watch if state is None else Watch(watch.deadlines, state, now_s)


def next_deadline(watch: Watch) -> Deadline | None:
    """The deadline of the current state; None if its watchdog is off."""
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
    """When the current state's deadline is; None if its watchdog is off."""
    limit = watch.rearmed or LIMITS[watch.state](watch.deadlines)
    return watch.since_s + limit.patience_s if limit.patience_s > 0 else None


def wake(watch: Watch, *, armed: ClockReading, woke: ClockReading) -> Watch | Deadline:
    """Handle a timer: return the deadline that has passed, or the watch to continue with.

    While the computer slept, nothing could arrive, so the remaining wait is at least a short while. The same
    applies to a suspended program, because data that arrived in the meantime is still unread. A program that
    is always slow can't restart its waits forever. A timer may also fire before its deadline, and a sleep
    must not be forgotten then.
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
SHARED = ipaddress.ip_network("100.64.0.0/10")  # carrier-grade NAT and overlay networks: never public


@lru_cache(maxsize=256)
def is_local(host: str) -> bool:
    """Whether a URL's host is this computer or in a private network; a name without a dot is."""
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
