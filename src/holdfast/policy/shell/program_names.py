"""Which program a command's first word means."""

import posixpath
import re

from holdfast.policy.shell.words import Word

SYSTEM_DIRECTORIES = frozenset(
    ("/bin", "/usr/bin", "/sbin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin")
)
# Parameters that stand for nothing in a shell that was given none.
NOTHING = re.compile(r"\$[@*!1-9]")
_VERSIONED = re.compile(r"(python|pip|perl|ruby|node|php|lua|tclsh|pypy)[0-9.]+")


def known_name(word: Word) -> str:
    """The name under which a program of the system is known, or nothing if this need not be one."""
    text = word.text
    if not word.literal or not text.isascii():
        return ""
    if "/" not in text:
        return _family(text)
    directory, _, name = text.rpartition("/")
    plain = posixpath.normpath(text) == text and directory in SYSTEM_DIRECTORIES
    return _family(name) if plain else ""


def likely_name(word: Word) -> str:
    """The name of the program that this may well be: what to forbid, never what to trust."""
    text = word.text if word.literal else NOTHING.sub("", word.text)
    return _family(text.rpartition("/")[2])


def _family(name: str) -> str:
    versioned = _VERSIONED.fullmatch(name)
    return versioned[1] if versioned else name
