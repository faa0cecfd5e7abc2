"""How search queries are read and matched; the same for every store."""

import re
import unicodedata
from collections.abc import Sequence
from typing import TypeAlias

QUERY_WORDS_MAX = 32
MATCH_BEGIN, MATCH_END = "\x02", "\x03"

Phrase: TypeAlias = tuple[str, ...]

_WORD = re.compile(r"[^\W_]+")


def phrases(query: str) -> list[Phrase]:
    """The phrases to find: one for each word of the query (`read-only` is a phrase of two words)."""
    found = [tuple(_WORD.findall(_plain(word))) for word in query.split()]
    return [phrase for phrase in found if phrase][:QUERY_WORDS_MAX]


def fts_query(wanted: Sequence[Phrase]) -> str:
    """The query for SQLite's full-text search, the last word as a prefix; only letters and digits remain."""
    return " ".join(f'"{" ".join(phrase)}"' for phrase in wanted) + "*"


def passage(text: str, wanted: Sequence[Phrase]) -> str | None:
    """The text with its matches delimited, or None if something was not found."""
    words = [
        (_plain(word.group()), word.span()) for word in _WORD.finditer(unicodedata.normalize("NFC", text))
    ]
    spans: set[tuple[int, int]] = set()
    for phrase in wanted:
        found = _places(phrase, [word for word, _ in words], is_prefix=phrase is wanted[-1])
        if not found:
            return None
        spans.update((words[at][1][0], words[at + len(phrase) - 1][1][1]) for at in found)
    marked = text
    for begin, end in sorted(spans, reverse=True):
        marked = f"{marked[:begin]}{MATCH_BEGIN}{marked[begin:end]}{MATCH_END}{marked[end:]}"
    return marked


def _places(phrase: Phrase, words: Sequence[str], *, is_prefix: bool) -> list[int]:
    *firsts, last = phrase
    return [
        at
        for at in range(len(words) - len(firsts))
        if list(words[at : at + len(firsts)]) == firsts
        and (words[at + len(firsts)].startswith(last) if is_prefix else words[at + len(firsts)] == last)
    ]


def _plain(text: str) -> str:
    """Lower case, and Latin letters without diacritics; elsewhere they can change the letter."""
    return "".join(_base(letter) for letter in unicodedata.normalize("NFC", text.lower()))


def _base(letter: str) -> str:
    first = unicodedata.normalize("NFD", letter)[0]
    return first if unicodedata.name(first, "").startswith("LATIN") else letter
