"""The words of a text as a tsvector, and a search as tsqueries.

They are made here and not by Postgres, whose own parser depends on the server's locale. What Postgres doesn't
accept in its text columns is replaced here, too.
"""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.journal.search_terms import Phrase, plain_words

WORD_BYTES_MAX = 2_000  # of 2,046 that Postgres allows
PART_BYTES_MAX = 512 * 1024  # of 1 MiB that a tsvector may have


class WordQuery(NamedTuple):
    """A search: all words in one query, and a query for each word."""

    all_words: str
    each_word: Sequence[str]


def clean(text: str) -> str:
    """The text without U+0000, which no text column can have."""
    return text.replace("\x00", "\ufffd") if "\x00" in text else text


def vectors(text: str) -> list[str]:
    """The distinct words of a text as the input of one or several tsvectors."""
    parts: list[str] = []
    gathered: list[str] = []
    size = 0
    for word in dict.fromkeys(_quoted(word) for word, _ in plain_words(text)):
        size += 4 * len(word)  # at least its bytes
        if size > PART_BYTES_MAX and gathered:
            parts.append(" ".join(gathered))
            gathered, size = [], 4 * len(word)
        gathered.append(word)
    return [*parts, " ".join(gathered)]


def word_query(wanted: Sequence[Phrase]) -> WordQuery:
    """The query for texts that may have these phrases; their order is checked in the text."""
    words = [_quoted(word) for phrase in wanted for word in phrase]
    words[-1] += ":*"
    distinct = list(dict.fromkeys(words))
    return WordQuery(" & ".join(distinct), distinct)


def _quoted(word: str) -> str:
    # A word has letters and digits only, so nothing in it needs escaping.
    if len(word) * 4 > WORD_BYTES_MAX:
        word = word.encode()[:WORD_BYTES_MAX].decode(errors="ignore")
    return f"'{word}'"
