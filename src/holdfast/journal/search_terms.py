"""How search queries are read and matched; the same for every store."""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

QUERY_WORDS_MAX = 32
EXCERPT_CHARS = 240
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
    text = unicodedata.normalize("NFC", text)
    spans = _matches(text, wanted)
    return None if spans is None else _marked(text, spans)


def excerpt(text: str, wanted: Sequence[Phrase]) -> str | None:
    """Like `passage`, but only the part of a long text that surrounds the first match."""
    text = unicodedata.normalize("NFC", text)
    spans = _matches(text, wanted)
    if spans is None:
        return None
    first, last = spans[0]
    begin = max(first - EXCERPT_CHARS // 4, 0)
    end = max(begin + EXCERPT_CHARS, last)
    if begin:
        begin = min(text.find(" ", begin, first) + 1 or first, first)
    if end < len(text):
        end = max(text.rfind(" ", last, end), last)
    inside = [(one - begin, other - begin) for one, other in spans if begin <= one and other <= end]
    return ("…" if begin else "") + _marked(text[begin:end], inside) + ("…" if end < len(text) else "")


def plain_words(text: str) -> list[tuple[str, tuple[int, int]]]:
    """The words of a text as they are compared, and where each is in the text's composed form."""
    if text.isascii():
        return [(word.group().lower(), word.span()) for word in _WORD.finditer(text)]
    composed = unicodedata.normalize("NFC", text)
    return [(_plain(word.group()), word.span()) for word in _WORD.finditer(composed)]


def _matches(text: str, wanted: Sequence[Phrase]) -> list[tuple[int, int]] | None:
    words = plain_words(text)
    spans: set[tuple[int, int]] = set()
    for phrase in wanted:
        found = _places(phrase, [word for word, _ in words], is_prefix=phrase is wanted[-1])
        if not found:
            return None
        spans.update((words[at][1][0], words[at + len(phrase) - 1][1][1]) for at in found)
    apart: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if apart and begin < apart[-1][1]:
            begin, end = apart[-1][0], max(end, apart.pop()[1])  # noqa: PLW2901  # both are one match
        apart.append((begin, end))
    return apart


def _marked(text: str, spans: Sequence[tuple[int, int]]) -> str:
    pieces: list[str] = []
    at = len(text)
    for begin, end in reversed(spans):
        pieces += (text[end:at], MATCH_END, text[begin:end], MATCH_BEGIN)
        at = begin
    pieces.append(text[:at])
    return "".join(reversed(pieces))


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


@lru_cache(maxsize=65_536)
def _base(letter: str) -> str:
    first = unicodedata.normalize("NFD", letter)[0]
    return first if unicodedata.name(first, "").startswith("LATIN") else letter
