"""Finds wording that reads like a translation; `python tests/plain_english.py FILE…` lists it in these files.

docs/contributing/style.md describes how we write. Nearly every match of a pattern here is worth rewriting.
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FILES = ("*.md", "src/*.py", "frontend/src/*.ts", "frontend/src/*.tsx")
# The style guide shows what not to write.
EXCEPT = {"docs/contributing/style.md"}
GENERATED = re.compile(r"(Made|Generated) by scripts/|^# Configuration reference", re.MULTILINE)
# Phrases that are right where they are: stored text, other people's words, and real pictures.
ALLOWED = (
    "Nobody gets in",
    "What isn't allowed",
    "told apart",
    "days side by side",
    "texts side by side",
    "a clock that stands still",
)


@dataclass(frozen=True, slots=True)
class Wording:
    """A pattern, what to write instead, and how many old texts still have it; that number only goes down."""

    pattern: str
    instead: str
    ceiling: int


WORDINGS = {
    "a clause as the subject": Wording(
        r"""(?:^|["'`>|#]\s*\**|[.!:]\s+|[-*] )(?:What|Whatever|Whoever|Who)\b(?!')(?![^.!?]*\?)""",
        "start with a noun or a verb",
        264,
    ),
    "whoever": Wording(r"\b[Ww]hoever\b", "anyone who, the caller", 20),
    "nobody": Wording(r"\b[Nn]obody\b", "no one, or name who doesn't", 117),
    "is told": Wording(
        r"\b(?:is|are|was|were|be|been|isn't|aren't) (?:told|said)\b", "gets, is sent, is shown", 81
    ),
    "asked about": Wording(r"\basked about\b", "needs approval", 12),
    "by itself": Wording(r"\bby (?:itself|themselves)\b", "automatically, on its own", 35),
    "tried again": Wording(r"\b(?:tried|sent) again\b", "retries, resends", 13),
    "goes on": Wording(r"\b(?:goes?|went|going) on\b(?! (?:the|a|its|to) )", "continues", 20),
    "under way": Wording(r"\bunder way\b", "in progress, active", 27),
    "stands": Wording(r"\bstands? (?:in|on|beside|at|there|still)\b", "is", 13),
    "becomes of": Wording(r"\bbec[ao]mes? of\b", "result, status", 18),
    "side by side": Wording(r"\bside by side\b", "concurrently", 5),
    "takes back": Wording(r"\b(?:takes?|taken|took|taking) (?:\w+ )?back\b", "undo, revoke, remove", 15),
    "of its own": Wording(r"\bof (?:its|their|our|your|his|her) own\b", "its own …", 58),
    "says so": Wording(r"\b(?:says?|said|saying) so\b", "say what", 23),
    "is to be": Wording(r"\b(?:is|are|was|were) to be \w+(?<!ing)\b", "must be, will be", 5),
}
_COMPILED = {name: re.compile(wording.pattern.replace(" ", r"\s+")) for name, wording in WORDINGS.items()}
_AROUND = 60


@dataclass(frozen=True, slots=True)
class Match:
    """A place in a text that should be rewritten."""

    name: str
    line: int
    excerpt: str


def matches(text: str) -> Iterator[Match]:
    """Yield each place of a text that has one of the wordings."""
    if GENERATED.search(text[:500]):
        return
    for name, pattern in _COMPILED.items():
        for found in pattern.finditer(text):
            excerpt = " ".join(text[max(0, found.start() - _AROUND) : found.end() + _AROUND].split())
            if not any(phrase in excerpt for phrase in ALLOWED):
                yield Match(name, text.count("\n", 0, found.end()) + 1, excerpt)


if __name__ == "__main__":
    for file in sys.argv[1:]:
        for match in matches(Path(file).read_text("utf-8")):
            sys.stdout.write(
                f"{file}:{match.line}: {match.name} ({WORDINGS[match.name].instead}): {match.excerpt}\n"
            )
