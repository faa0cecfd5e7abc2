"""How long a target took to say its first word lately, by the size of the request."""

import math

import msgspec

from holdfast.targets import Target, address_of

KEPT_MAX = 50
PERCENTILE = 0.95
BAND_TOKENS = (10_000, 32_000, 64_000, 128_000, 256_000)


class Learned(msgspec.Struct, frozen=True):
    """The last first-event times of one target, in seconds, the oldest first, one ring for each size band."""

    bands: tuple[tuple[float, ...], ...] = ((),) * (len(BAND_TOKENS) + 1)


def learned_note(target: Target) -> str:
    """The name of the note: another model or endpoint under an old target name starts afresh."""
    return f"learned:{target.base_url} {target.model}"


def address_in(note: str) -> str:
    """The address that the name of a note tells: there was somebody."""
    return address_of(note.removeprefix("learned:").partition(" ")[0])


def learn(learned: Learned, input_tokens: int, *, first_event_s: float) -> Learned:
    """With one more call that was answered; a call that was cut does not tell how long it would take."""
    band = _band(input_tokens)
    ring = (*learned.bands[band], round(first_event_s, 3))[-KEPT_MAX:]
    return Learned((*learned.bands[:band], ring, *learned.bands[band + 1 :]))


def p95_s(learned: Learned, input_tokens: int) -> float | None:
    """The p95 for a request of this size; what smaller ones needed, this one may need too."""
    rings = (ring for ring in learned.bands[: _band(input_tokens) + 1] if ring)
    return max((sorted(ring)[math.ceil(PERCENTILE * len(ring)) - 1] for ring in rings), default=None)


def dump_learned(learned: Learned) -> bytes:
    """As a note."""
    return msgspec.json.encode(learned)


def load_learned(raw: bytes) -> Learned:
    """From a note; one that cannot be read costs what was learned, nothing else."""
    try:
        learned = msgspec.json.decode(raw, type=Learned)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Learned()
    if len(learned.bands) != len(BAND_TOKENS) + 1:
        return Learned()
    return Learned(tuple(ring[-KEPT_MAX:] for ring in learned.bands))


def _band(input_tokens: int) -> int:
    return sum(input_tokens >= edge for edge in BAND_TOKENS)
