"""Selects the skills to describe to the model when there are more than fit."""

import math
import re
from collections.abc import Mapping, Sequence

SKILLS_SHOWN_MAX = 50
BYTES_SHOWN_MAX = 8_000
LINE_CHARS_MAX = 300
_WORD = re.compile(r"[^\W_]{3,}")
_NAME_WEIGHT = 3.0
_PLURAL_MIN = 4


def line_of(name: str, description: str) -> str:
    """Describe one skill for the model."""
    words = " ".join(description.split())
    return f"- {name}: {words[:LINE_CHARS_MAX]}"


def chosen(skills: Mapping[str, str], message: str) -> Sequence[str]:
    """The names of the skills to show, by name and description; the most relevant ones if not all fit."""
    names = sorted(skills)
    if not _fits(skills, names):
        names = ranked(skills, message)
    shown: list[str] = []
    left = BYTES_SHOWN_MAX
    for name in names[:SKILLS_SHOWN_MAX]:
        left -= len(line_of(name, skills[name]).encode()) + 1
        if left < 0:
            break
        shown.append(name)
    return sorted(shown)


def ranked(skills: Mapping[str, str], message: str) -> list[str]:
    """All names, those first whose words are in the message; rare words count more."""
    words = {name: (_words(name), _words(description)) for name, description in skills.items()}
    common: dict[str, int] = {}
    for named, described in words.values():
        for word in named | described:
            common[word] = common.get(word, 0) + 1
    asked = _words(message)

    def score(name: str) -> float:
        named, described = words[name]
        found = asked & (named | described)
        return sum(
            (_NAME_WEIGHT if word in named else 1.0) * math.log(1 + len(skills) / common[word])
            for word in found
        )

    return sorted(skills, key=lambda name: (-score(name), name))


def _fits(skills: Mapping[str, str], names: Sequence[str]) -> bool:
    size = sum(len(line_of(name, skills[name]).encode()) + 1 for name in names)
    return len(names) <= SKILLS_SHOWN_MAX and size <= BYTES_SHOWN_MAX


def _words(text: str) -> set[str]:
    found = {word.lower() for word in _WORD.findall(text)}
    # A plural is close enough.
    long = [word for word in found if len(word) > _PLURAL_MIN]
    return found | {word.removesuffix(end) for word in long for end in ("s", "es")}
