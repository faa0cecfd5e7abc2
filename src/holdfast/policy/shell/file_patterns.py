"""File name patterns: the words that a shell would put in place of `*.py` and `src/*.md`.

A program that only reads is judged with those words. Every one of them must name an ordinary file of the
workspace: a name that begins with a dash would be an option, and the names come in an order that depends on
the machine.
"""

import re

from holdfast.policy.path_facts import PathFacts
from holdfast.policy.shell.option_tables import READERS, Operands
from holdfast.policy.shell.words import GLOB, Word, known_name

# Stars and question marks between plain letters. A word that is written with quotes, escapes, brackets or two
# stars may match something else than it seems to; one that begins with a dash is an option.
_SIMPLE = re.compile(r"(?!-)(?!.*\*\*)[A-Za-z0-9_./@%+,*?-]+")
# Programs whose operands are all alike, or follow a text to look for: which name comes first is not known.
_TAKES_FILES = frozenset[Operands](("paths", "pattern"))
_HIDDEN = re.compile(r"(?:^|/)\.[^/]*[*?]")


def with_names(
    words: tuple[Word, ...], facts: PathFacts, *, cwds: tuple[str, ...]
) -> tuple[Word, ...] | None:
    """The words with each pattern replaced by the names that it matches; None if that is not certain."""
    if len(cwds) != 1 or not any(word.why == GLOB for word in words[1:]):
        return None
    name = known_name(words[0])
    if name != "echo" and (name not in READERS or READERS[name].operands not in _TAKES_FILES):
        return None
    found: list[Word] = []
    for word in words:
        if word.why != GLOB:
            found.append(word)
            continue
        names = _names(word, facts, cwds[0])
        if names is None:
            return None
        found += map(Word, names)
    return tuple(found)


def _names(word: Word, facts: PathFacts, cwd: str) -> tuple[str, ...] | None:
    if not word.bare or not _SIMPLE.fullmatch(word.text) or _HIDDEN.search(word.text):
        return None
    names = facts.matches(cwd, word.text)
    if names is None or any(name.startswith("-") for name in names):
        return None
    paths = {path for name in names for path in facts.resolved(name, (cwd,))}
    return names if all(facts.inside(path) and not facts.kept(path) for path in paths) else None
