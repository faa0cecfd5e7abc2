"""The parsed form of a shell text: commands with their words and redirections."""

from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.policy.shell.words import Word

RedirectKind: TypeAlias = Literal["read", "write", "append", "dup", "document"]
# fmt: off
RESERVED = frozenset((
    "{", "}", "(", ")", "((", "))", "[[", "]]", "!", "if", "then", "elif", "else", "fi", "for", "while",
    "until", "do", "done", "case", "esac", "in", "select", "function",
))
# fmt: on


class Redirect(Struct, frozen=True):
    """Where a command's input comes from or its output goes."""

    kind: RedirectKind
    target: Word


class SimpleCommand(Struct, frozen=True):
    """One simple command; without words, the redirections of a compound command."""

    words: tuple[Word, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    redirects: tuple[Redirect, ...] = ()
    fed: bool = False  # its input is not the caller's: a pipe, a document, a file
    forks: bool = False  # runs beside other commands: in a pipeline or in the background
    looped: bool = False
    loop_names: frozenset[str] = frozenset()  # variables of the loops around it that have only fixed values
    functions: frozenset[str] = frozenset()  # the functions whose bodies it stands in


class Script(Struct, frozen=True):
    """Every command of a text, and the reasons to ask about the text itself."""

    commands: tuple[SimpleCommand, ...] = ()
    findings: tuple[str, ...] = ()
    guesses: tuple[SimpleCommand, ...] = ()  # what it may run besides, where the reading is in doubt
