"""State shared by all runs: a gate for each endpoint and key, and a breaker for each target.

A gate closes when a provider names a time to wait for. A breaker opens when a target is silent several times
in a row, and then lets through one probe at a time. Both use a clock that is never adjusted. Notes have
wall-clock times, and the wall clock may have changed by the time a note is read, so a stored wait never lasts
longer than its original length.
"""

import hashlib
from functools import lru_cache
from typing import TypeVar

import msgspec

from holdfast.targets import Target
from holdfast.values import FailureKind

OPENS_AFTER = 3
COOLDOWN_MS = 30_000
COOLDOWN_MS_MAX = 300_000
UNKNOWN_LENGTH_MS_MAX = 60_000  # for a note without a length; at worst the provider tells us again
_KEY_CHARS = 16

T = TypeVar("T")


class Moment(msgspec.Struct, frozen=True):
    """A clock that is never adjusted and the wall clock, read together."""

    now_ms: int
    wall_ms: int


class Gate(msgspec.Struct, frozen=True, kw_only=True):
    """Closed until `until_ms`, except for one deliberate attempt; it was closed for `length_ms`."""

    until_ms: int = 0
    length_ms: int = 0
    why: str = ""
    tried: bool = False


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """Open while `cooldown_ms` is set; `probing` while the attempt that decides what comes next runs."""

    silent: int = 0
    cooldown_ms: int = 0
    probe_at_ms: int = 0
    probing: bool = False


def gate_note(target: Target) -> str:
    """The name of the gate's note; it has only a fingerprint of the key."""
    return f"gate:{target.base_url} {_fingerprint(target.api_key)}"


def breaker_note(target: Target) -> str:
    """The name of the breaker's note."""
    return f"breaker:{target.base_url} {target.model} {_fingerprint(target.api_key)}"


@lru_cache(maxsize=64)
def _fingerprint(api_key: str) -> str:
    return hashlib.sha256(api_key.encode(errors="replace")).hexdigest()[:_KEY_CHARS]


def close_gate(gate: Gate, wait_ms: int, *, now_ms: int, why: str) -> Gate:
    """The gate after the provider asks for a wait; the later time wins."""
    until_ms = now_ms + wait_ms
    return gate if until_ms <= gate.until_ms else Gate(until_ms=until_ms, length_ms=wait_ms, why=why)


def gate_wait_ms(gate: Gate, now_ms: int) -> int:
    """How long the gate stays closed."""
    return max(0, gate.until_ms - now_ms)


def try_gate(gate: Gate, now_ms: int) -> Gate | None:
    """The gate after a person's "try now", which lets one attempt pass; None if one already has."""
    if gate_wait_ms(gate, now_ms) == 0:
        return gate
    return None if gate.tried else msgspec.structs.replace(gate, tried=True)


def breaker_wait_ms(breaker: Breaker, now_ms: int) -> int:
    """How long until an attempt may pass."""
    return max(0, breaker.probe_at_ms - now_ms) if breaker.cooldown_ms else 0


def pass_breaker(breaker: Breaker, now_ms: int) -> Breaker | None:
    """Return the breaker with an attempt in progress; None if the attempt must wait.

    An attempt that passes an open breaker is its probe. The next one waits a full cooldown, so the probe of a
    dead server blocks others no longer than that.
    """
    if not breaker.cooldown_ms:
        return breaker
    if breaker_wait_ms(breaker, now_ms):
        return None
    return msgspec.structs.replace(breaker, probe_at_ms=now_ms + breaker.cooldown_ms, probing=True)


def abandon_probe(breaker: Breaker, now_ms: int) -> Breaker:
    """The breaker after its probe was cancelled: the next attempt can probe at once."""
    return msgspec.structs.replace(breaker, probe_at_ms=now_ms, probing=False) if breaker.probing else breaker


def after_failure(breaker: Breaker, kind: FailureKind, *, now_ms: int) -> Breaker:
    """The breaker after a failed attempt; any answer, even a refusal, shows that the target responds."""
    from holdfast.decisions.failures import TREATMENTS  # a server starts without it

    silence = TREATMENTS[kind].silence
    if silence == "answers":
        return Breaker()
    if silence == "neutral":
        return msgspec.structs.replace(breaker, probing=False)
    return _silent(breaker, now_ms)


def _silent(breaker: Breaker, now_ms: int) -> Breaker:
    silent = breaker.silent + 1
    if breaker.cooldown_ms and not breaker.probing:
        # Only a probe that was due lengthens the pause, so it grows with time, not with the number of calls.
        return breaker
    if silent < OPENS_AFTER and not breaker.probing:
        return Breaker(silent=silent)
    cooldown_ms = min(2 * breaker.cooldown_ms, COOLDOWN_MS_MAX) or COOLDOWN_MS
    return Breaker(silent=silent, cooldown_ms=cooldown_ms, probe_at_ms=now_ms + cooldown_ms)


def after_success() -> Breaker:
    """The breaker after progress of any kind."""
    return Breaker()


class _GateNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    until_ms: int = 0
    length_ms: int = 0
    why: str = ""
    tried: bool = False


class _BreakerNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    silent: int = 0
    cooldown_ms: int = 0
    probe_at_ms: int = 0
    probing: bool = False


def dump_gate(gate: Gate, at: Moment) -> bytes:
    """The gate as a note."""
    until_ms = gate.until_ms - at.now_ms + at.wall_ms if gate.until_ms else 0
    note = _GateNote(until_ms=until_ms, length_ms=gate.length_ms, why=gate.why, tried=gate.tried)
    return msgspec.json.encode(note)


def dump_breaker(breaker: Breaker, at: Moment) -> bytes:
    """The breaker as a note."""
    note = _BreakerNote(
        silent=breaker.silent,
        cooldown_ms=breaker.cooldown_ms,
        probe_at_ms=breaker.probe_at_ms - at.now_ms + at.wall_ms if breaker.cooldown_ms else 0,
        probing=breaker.probing,
    )
    return msgspec.json.encode(note)


def load_gate(raw: bytes, at: Moment) -> Gate:
    """The gate from a note; an unreadable one is open."""
    note = _load(raw, _GateNote())
    length_ms = note.length_ms or UNKNOWN_LENGTH_MS_MAX
    left_ms = min(note.until_ms - at.wall_ms, length_ms)
    if left_ms <= 0:
        return Gate()
    return Gate(until_ms=at.now_ms + left_ms, length_ms=length_ms, why=note.why, tried=note.tried)


def load_breaker(raw: bytes, at: Moment) -> Breaker:
    """The breaker from a note; an unreadable one is closed."""
    note = _load(raw, _BreakerNote())
    left_ms = max(0, min(note.probe_at_ms - at.wall_ms, note.cooldown_ms))
    return Breaker(
        silent=note.silent,
        cooldown_ms=note.cooldown_ms,
        probe_at_ms=at.now_ms + left_ms if note.cooldown_ms else 0,
        probing=note.probing,
    )


def _load(raw: bytes, default: T) -> T:
    try:
        return msgspec.json.decode(raw, type=type(default))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return default
