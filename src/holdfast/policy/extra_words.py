"""Decides which words a rule covers beyond those that it names: workspace files and harmless options."""

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from holdfast.policy.program_usages import RUNNERS, RUNS_ANOTHER, USAGES
from holdfast.policy.shell.option_tables import JQ_MORE, Option, ProgramUsage, Value, options_in
from holdfast.policy.shell.words import Word, likely_name
from holdfast.values import Width

IsOrdinary = Callable[[str], bool]

_NO_OPTIONS = ProgramUsage()
# For an unknown program or subcommand, any word may be an instruction: `.shell id`, `run ./x`, `exec:exec`.
_NOTHING = ProgramUsage(operands="code")
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?[A-Za-z%]{0,2}|auto")
_PLAIN = re.compile(r"[\w.,:+-]*")
_ADDRESS = re.compile(r"://|^[^/\s]+@[^/\s]+:")
# A file of further arguments, apart or behind an option: what stands in it is not seen here.
_MORE_ARGUMENTS = re.compile(r"@|-[^-=]{0,8}@|-[^=]*=@")
_REMOTES = frozenset(("origin", "upstream"))
_BRANCHES = re.compile(r"[\w./-]+(?::[\w./-]+)?")
_MODULE_WORDS = 3  # `python -m NAME` and the like
_TEXTS_FIRST = frozenset(("pattern", "filter"))


class _Program(Struct, frozen=True):
    """The table for a command's words, and the first word that it applies to."""

    usage: ProgramUsage
    first: int  # the first word that is no part of the program's name
    unknown: tuple[int, ...] = ()  # words that choose what runs and are not known


def first_uncovered(
    argv: tuple[str, ...], named: int, *, is_ordinary: IsOrdinary, width: Width | None = None
) -> str:
    """The first word after the `named` ones that the rule does not cover; empty if it covers all.

    `is_ordinary` says whether a word is, or would be, the path of an ordinary file in the workspace. With the
    width "similar", only the options that the table lists for it are covered.
    """
    program = _program(argv)
    for at in program.unknown:
        if at >= named:
            return argv[at]
    only = program.usage.similar or frozenset() if width == "similar" else None
    reader = _Reader(program.usage, named, is_ordinary, only=only)
    # Git has no files of arguments: there an @ begins the name of a revision.
    more = None if likely_name(Word(argv[0])) == "git" else _MORE_ARGUMENTS
    for at, word in _from(argv, program.first):
        if not reader.covers(at, word) or (at >= named and more and more.match(word)):
            return word
    return ""


def is_runner(argv: tuple[str, ...]) -> bool:
    """Whether a program and subcommand build or test, and so run code of the workspace."""
    return argv in RUNNERS


def similar_usage(
    argv: tuple[str, ...], *, contained: bool = False
) -> tuple[tuple[str, ...], ProgramUsage] | None:
    """The program and subcommand that a grant for similar commands names, and their table; None if none may.

    The words must be written plainly: no path to the program, and no option before the subcommand. With
    `contained`, programs that build and test may have a grant too.
    """
    tables = USAGES.get(argv[0]) if argv else None
    if tables is None:
        return None
    program = _program(argv)
    prefix = argv[: program.first]
    if program.unknown or tables.get(" ".join(prefix[1:])) is not program.usage:
        return None
    if program.usage.similar is None and not (contained and is_runner(prefix)):
        return None
    return prefix, program.usage


def _from(argv: tuple[str, ...], first: int) -> Iterator[tuple[int, str]]:
    return ((at, argv[at]) for at in range(first, len(argv)))


def _program(argv: tuple[str, ...]) -> _Program:
    """The table for the program that actually runs."""
    name = likely_name(Word(argv[0]))
    if len(argv) >= _MODULE_WORDS and (name, argv[1]) in RUNS_ANOTHER:
        inner = _program((argv[2], *argv[_MODULE_WORDS:]))
        unknown = (1, 2, *(at + 2 for at in inner.unknown))
        return _Program(inner.usage, inner.first + 2, unknown)
    tables = USAGES.get(name)
    if tables is None:
        return _Program(_NOTHING, 1)
    if set(tables) <= {""}:
        return _Program(tables.get("", _NOTHING), 1)
    at = next((at for at in range(1, len(argv)) if not argv[at].startswith("-")), len(argv))
    before = () if _are_flags(tables.get("", _NO_OPTIONS), argv[1:at]) else tuple(range(1, at))
    if at == len(argv):
        return _Program(tables.get("", _NO_OPTIONS), 1)
    for words in (2, 1):  # `stash list`, or `log`
        sub = argv[at : at + words]
        if len(sub) == words and " ".join(sub) in tables:
            return _Program(tables[" ".join(sub)], at + words, before)
    return _Program(_NOTHING, at + 1, (*before, at))


def _are_flags(usage: ProgramUsage, words: tuple[str, ...]) -> bool:
    return all(usage.options.get(word) == "none" for word in words)


class _Reader:
    """Goes through a command's words and says whether each is covered."""

    def __init__(
        self, usage: ProgramUsage, named: int, is_ordinary: IsOrdinary, *, only: frozenset[str] | None = None
    ) -> None:
        self._usage = usage
        self._only = only  # if set, no other option is covered
        self._named = named
        self._is_ordinary = is_ordinary
        self._awaited: Value | None = None  # what the next word is the value of
        self._in_doubt = False  # the last named word is an option of which nothing is known
        self._operands = 0
        self._ended = False  # behind --

    def covers(self, at: int, word: str) -> bool:
        """Whether a word is named, or harmless."""
        is_named = at < self._named
        if self._awaited is not None:
            kind, self._awaited = self._awaited, None
            return is_named or (not word.startswith("-") and self._is_value(kind, word))
        if word.startswith("-") and word != "-":
            return self._option(word, is_named=is_named)
        in_doubt, self._in_doubt = self._in_doubt, False
        self._operands += 1
        return is_named or (not in_doubt and self._is_operand(word))

    def _option(self, word: str, *, is_named: bool) -> bool:
        if word == "--":
            self._ended = True
            return True
        self._in_doubt = False
        if self._ended or (self._usage.operands == "script" and self._operands):
            return is_named
        found = tuple(options_in(self._usage, word))
        known = all(self._is_harmless(option) for option in found)
        if found and found[-1].joined is None:
            self._awaited = found[-1].value
        self._in_doubt = is_named and any(option.value is None for option in found)
        return is_named or known

    def _is_harmless(self, option: Option) -> bool:
        if option.value is None or option.value == "named":
            return False
        if self._only is not None and option.name not in self._only:
            return False
        return option.joined is None or self._is_value(option.value, option.joined)

    def _is_value(self, kind: Value, text: str) -> bool:
        match kind:
            case "none" | "named":
                return _PLAIN.fullmatch(text) is not None
            case "number":
                return _NUMBER.fullmatch(text) is not None
            case "text":
                return True
            case "read" | "write":
                return self._is_path(text)

    def _is_path(self, text: str) -> bool:
        return not _ADDRESS.search(text) and self._is_ordinary(text)

    def _is_operand(self, word: str) -> bool:
        """Whether an operand is harmless, by what the program uses it for; `_operands` counts it already."""
        kind, first = self._usage.operands, self._operands == 1
        if kind in _TEXTS_FIRST and first:
            return kind == "pattern" or not JQ_MORE.search(word)
        match kind:
            case "text":
                return True
            case "none" | "code":
                return False
            case "targets":
                return "=" not in word and self._is_path(word)
            case "local":
                return (word.startswith(".") or word.endswith(".go")) and self._is_path(word)
            case "remote":
                return word in _REMOTES if first else _BRANCHES.fullmatch(word) is not None
            case _:
                return self._is_path(word)
