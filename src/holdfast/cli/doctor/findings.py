"""The doctor's findings: one line for each check, with a fix if needed."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

State: TypeAlias = Literal["ok", "note", "fault"]


class DoctorFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one check; a fault makes the exit code 1, a note doesn't."""

    name: str
    state: State
    text: str
    advice: str = ""
    facts: Mapping[str, object] = {}


def counted(number: int, word: str, many: str = "") -> str:
    """A number with its noun, for example "2 faults"."""
    return f"{number} {word if number == 1 else many or f'{word}s'}"


def ok(name: str, text: str, **facts: object) -> DoctorFinding:
    """A check that passed."""
    return DoctorFinding(name, "ok", text, facts=facts)


def note(name: str, text: str, advice: str, **facts: object) -> DoctorFinding:
    """Something that works but could be better."""
    return DoctorFinding(name, "note", text, advice, facts)


def fault(name: str, text: str, advice: str, **facts: object) -> DoctorFinding:
    """Something that doesn't work, or soon won't."""
    return DoctorFinding(name, "fault", text, advice, facts)
