"""What the doctor finds: one line a check, and what to do where something is wrong."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

State: TypeAlias = Literal["ok", "note", "fault"]


class DoctorFinding(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one check; a fault makes the exit code 1, a note does not."""

    name: str
    state: State
    text: str
    advice: str = ""
    facts: Mapping[str, object] = {}


def counted(number: int, word: str) -> str:
    """So many of something, in words."""
    return f"{number} {word}{'' if number == 1 else 's'}"


def ok(name: str, text: str, **facts: object) -> DoctorFinding:
    """All is well."""
    return DoctorFinding(name, "ok", text, facts=facts)


def note(name: str, text: str, advice: str, **facts: object) -> DoctorFinding:
    """It works, and could be better."""
    return DoctorFinding(name, "note", text, advice, facts)


def fault(name: str, text: str, advice: str, **facts: object) -> DoctorFinding:
    """It does not work, or will not."""
    return DoctorFinding(name, "fault", text, advice, facts)
