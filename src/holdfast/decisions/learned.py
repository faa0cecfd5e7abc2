"""How long a target recently took until its first event, by the size of the request.

Models that an endpoint is known to reject silently: patterns and hints, as data.
"""

import math
import tomllib
from bisect import bisect_right
from fnmatch import fnmatchcase

import msgspec

from holdfast.targets import Target, address_of

KEPT_MAX = 50
USUAL_MIN = 20  # answered requests of a size, before patience with it is shortened
PERCENTILE = 0.95
BAND_TOKENS = (10_000, 32_000, 64_000, 128_000, 256_000)


class Learned(msgspec.Struct, frozen=True):
    """The recent first-event times of one target, in seconds, oldest first, one ring per size band."""

    bands: tuple[tuple[float, ...], ...] = ((),) * (len(BAND_TOKENS) + 1)


def learned_note(target: Target) -> str:
    """The name of the note; a target with a new model or endpoint starts over."""
    return f"learned:{target.base_url} {target.model}"


def address_in(note: str) -> str:
    """The address in the name of a note: something there has answered before."""
    return address_of(note.removeprefix("learned:").partition(" ")[0])


def learn(learned: Learned, input_tokens: int, *, first_event_s: float) -> Learned:
    """Add one answered call; a call that was cut off doesn't show how long it would have taken."""
    band = _band(input_tokens)
    ring = (*learned.bands[band], round(first_event_s, 3))[-KEPT_MAX:]
    return Learned((*learned.bands[:band], ring, *learned.bands[band + 1 :]))


def p95_s(learned: Learned, input_tokens: int) -> float | None:
    """The p95 for a request of this size; it may need as long as smaller ones did."""
    return max(map(_p95_s, filter(None, learned.bands[: _band(input_tokens) + 1])), default=None)


def usual_s(learned: Learned, input_tokens: int) -> float | None:
    """The p95 for a request of this size, if enough of them were answered to rely on it."""
    is_known = len(learned.bands[_band(input_tokens)]) >= USUAL_MIN
    return p95_s(learned, input_tokens) if is_known else None


def load_learned(raw: bytes) -> Learned:
    """The times from a note; an unreadable one only costs what was learned."""
    try:
        learned = msgspec.json.decode(raw, type=Learned)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Learned()
    if len(learned.bands) != len(BAND_TOKENS) + 1:
        return Learned()
    return Learned(tuple(ring[-KEPT_MAX:] for ring in learned.bands))


def _p95_s(ring: tuple[float, ...]) -> float:
    return sorted(ring)[math.ceil(PERCENTILE * len(ring)) - 1]


def _band(input_tokens: int) -> int:
    return bisect_right(BAND_TOKENS, input_tokens)


class SilentReject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An endpoint (without its scheme) and a model, both as shell patterns, and the hint for the user."""

    endpoint: str
    model: str
    hint: str


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    reject: tuple[SilentReject, ...] = ()


def load_silent_rejects(text: str) -> tuple[SilentReject, ...]:
    """The entries of the data file; raises on an invalid entry, which is a bug."""
    return msgspec.convert(tomllib.loads(text), _File).reject


def silent_reject_hint(rejects: tuple[SilentReject, ...], *, base_url: str, model: str) -> str:
    """The hint of the first matching entry, or an empty string."""
    endpoint = base_url.partition("://")[2].rstrip("/").lower()
    for reject in rejects:
        if fnmatchcase(endpoint, reject.endpoint) and fnmatchcase(model.lower(), reject.model):
            return reject.hint
    return ""
