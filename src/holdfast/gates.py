"""What all runs know together: a gate for each endpoint and key, a breaker for each target.

Both are values that live in notes. A gate is closed by a provider that names a time; a breaker opens when a
target is silent again and again, and lets one probe through from time to time.
"""

import hashlib
from functools import lru_cache
from typing import TypeVar

import msgspec

from holdfast.failures import TREATMENTS
from holdfast.targets import Target
from holdfast.values import FailureKind

OPENS_AFTER = 3
COOLDOWN_MS = 30_000
COOLDOWN_MS_MAX = 300_000
_KEY_CHARS = 16

T = TypeVar("T")


class Gate(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Nobody passes before `until_ms`, but for one who tries it on purpose."""

    until_ms: int = 0
    why: str = ""
    tried: bool = False


class Breaker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Open while `cooldown_ms` is set; `probing` while an attempt is out that decides what comes next."""

    silent: int = 0
    cooldown_ms: int = 0
    probe_at_ms: int = 0
    probing: bool = False


def gate_note(target: Target) -> str:
    """The name of the gate's note; the key is in it as a fingerprint only."""
    return f"gate:{target.base_url} {_fingerprint(target.api_key)}"


def breaker_note(target: Target) -> str:
    """The name of the breaker's note."""
    return f"breaker:{target.base_url} {target.model} {_fingerprint(target.api_key)}"


@lru_cache(maxsize=64)
def _fingerprint(api_key: str) -> str:
    return hashlib.sha256(api_key.encode(errors="replace")).hexdigest()[:_KEY_CHARS]


def close_gate(gate: Gate, *, until_ms: int, why: str) -> Gate:
    """The gate after one more word of the provider; the later time holds."""
    return gate if until_ms <= gate.until_ms else Gate(until_ms=until_ms, why=why)


def gate_wait_ms(gate: Gate, now_ms: int) -> int:
    """How long the gate stays closed."""
    return max(0, gate.until_ms - now_ms)


def try_gate(gate: Gate, now_ms: int) -> Gate | None:
    """The gate after a person's "try now": one attempt passes, None if one has passed already."""
    if gate_wait_ms(gate, now_ms) == 0:
        return gate
    return None if gate.tried else Gate(until_ms=gate.until_ms, why=gate.why, tried=True)


def breaker_wait_ms(breaker: Breaker, now_ms: int) -> int:
    """How long until an attempt may pass; one beyond the cooldown is of a clock that was set back."""
    wait_ms = breaker.probe_at_ms - now_ms
    return wait_ms if 0 < wait_ms <= breaker.cooldown_ms else 0


def pass_breaker(breaker: Breaker, now_ms: int) -> Breaker | None:
    """The breaker with an attempt under way, None if it must wait.

    Who passes an open breaker is its probe, and the next one waits a whole cooldown, so that a probe that
    is never heard of again blocks nobody for longer.
    """
    if not breaker.cooldown_ms:
        return breaker
    return None if breaker_wait_ms(breaker, now_ms) else _probe(breaker, now_ms)


def pass_breaker_by_hand(breaker: Breaker, now_ms: int) -> Breaker:
    """The breaker with an attempt under way that a person's message asked for: it always earns one."""
    return _probe(breaker, now_ms) if breaker.cooldown_ms else breaker


def _probe(breaker: Breaker, now_ms: int) -> Breaker:
    return msgspec.structs.replace(breaker, probe_at_ms=now_ms + breaker.cooldown_ms, probing=True)


def after_failure(breaker: Breaker, kind: FailureKind, *, now_ms: int) -> Breaker:
    """The breaker after an attempt failed; an answer, even a refusal, shows that the target speaks."""
    silence = TREATMENTS[kind].silence
    if silence == "answers":
        return Breaker()
    if silence == "neutral":
        return msgspec.structs.replace(breaker, probing=False)
    return _silent(breaker, now_ms)


def _silent(breaker: Breaker, now_ms: int) -> Breaker:
    silent = breaker.silent + 1
    if breaker.cooldown_ms and not breaker.probing:
        # An attempt from before the breaker opened: no news.
        return breaker
    if silent < OPENS_AFTER and not breaker.probing:
        return Breaker(silent=silent)
    cooldown_ms = min(2 * breaker.cooldown_ms, COOLDOWN_MS_MAX) or COOLDOWN_MS
    return Breaker(silent=silent, cooldown_ms=cooldown_ms, probe_at_ms=now_ms + cooldown_ms)


def after_success() -> Breaker:
    """The breaker after progress of any kind."""
    return Breaker()


def dump_gate(gate: Gate) -> bytes:
    """As a note."""
    return msgspec.json.encode(gate)


def dump_breaker(breaker: Breaker) -> bytes:
    """As a note."""
    return msgspec.json.encode(breaker)


def load_gate(raw: bytes) -> Gate:
    """From a note; one that cannot be read is open."""
    return _load(raw, Gate())


def load_breaker(raw: bytes) -> Breaker:
    """From a note; one that cannot be read is closed."""
    return _load(raw, Breaker())


def _load(raw: bytes, default: T) -> T:
    try:
        return msgspec.json.decode(raw, type=type(default))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return default
