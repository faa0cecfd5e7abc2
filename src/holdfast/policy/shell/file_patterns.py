"""File name patterns and braces: the words that a shell puts in place of `*.py`, `[ab].md` and `{a,b}.c`.

A program that only reads is judged with those words. Every one of them must name an ordinary file of the
workspace: a name that begins with a dash would be an option, and the names come in an order that depends on
the machine. The word as it is written is among them too: a shell without braces keeps it, and so does every
shell where a pattern matches nothing.
"""

import re
from collections.abc import Iterator
from itertools import islice, product

from holdfast.policy.path_facts import PathFacts
from holdfast.policy.shell.option_tables import READERS, Operands
from holdfast.policy.shell.words import BRACES, GLOB, Word, known_name

EXPANSIONS_MAX = 64
# Stars and question marks between plain letters. A word that is written with quotes, escapes or two stars may
# match something else than it seems to; one that begins with a dash is an option.
_SIMPLE = re.compile(r"(?!-)(?!.*\*\*)[A-Za-z0-9_./@%+,*?-]+")
# Which characters a class matches depends on the language; a question mark matches them all.
_CLASS = re.compile(r"\[[!^]?[A-Za-z0-9_-]+\]")
_LIST = re.compile(r"\{([^{},]*(?:,[^{},]*)+)\}")
# Programs whose operands are all alike, or follow a text to look for: which name comes first is not known.
_TAKES_FILES = frozenset[Operands](("paths", "pattern"))
_HIDDEN = re.compile(r"(?:^|/)\.[^/]*[*?]")


def with_names(words: tuple[Word, ...], facts: PathFacts, *, cwd: str) -> tuple[Word, ...] | None:
    """The words with each pattern replaced by the names that it matches; None if that is not certain."""
    name = known_name(words[0]) if words else ""
    if name != "echo" and (name not in READERS or READERS[name].operands not in _TAKES_FILES):
        return None
    found: list[Word] = []
    for word in words:
        if word.why not in {GLOB, BRACES}:
            found.append(word)
            continue
        names = _names(word, facts, cwd)
        if names is None:
            return None
        found += map(Word, names)
    return tuple(found)


def has_patterns(words: tuple[Word, ...]) -> bool:
    """Whether some operand is a pattern or a list in braces."""
    return any(word.why in {GLOB, BRACES} for word in words[1:])


def _names(word: Word, facts: PathFacts, cwd: str) -> tuple[str, ...] | None:
    texts = list(islice(_expansions(word.text), EXPANSIONS_MAX + 1))
    if not word.bare or len(texts) > EXPANSIONS_MAX:
        return None
    found = {word.text: None}
    for text in texts:
        pattern = _CLASS.sub("?", text)
        if not _SIMPLE.fullmatch(pattern) or _HIDDEN.search(pattern):
            return None
        names = facts.matches(cwd, pattern) if "*" in pattern or "?" in pattern else (text,)
        if names is None or any(name.startswith("-") for name in names):
            return None
        found |= dict.fromkeys((text, *names))
    paths = {path for name in found for path in facts.resolved(name, (cwd,))}
    return tuple(found) if all(facts.inside(path) and not facts.kept(path) for path in paths) else None


def _expansions(text: str) -> Iterator[str]:
    """The words that lists in braces stand for; a brace that is in no such list remains."""
    parts = _LIST.split(text)  # texts and lists by turns
    choices = [part.split(",") if nth % 2 else [part] for nth, part in enumerate(parts)]
    return ("".join(chosen) for chosen in product(*choices))
