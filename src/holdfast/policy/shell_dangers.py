"""The short list of what no mode, rule or grant allows: wiping a disk or a home, fork bombs, Holdfast's own.

It reads words generously: escapes and expansions of home are followed as far as the text shows them, and a
program counts under any path. What it cannot recognise here still asks.
"""

import re
from collections.abc import Iterator

from holdfast.policy.places import Places, is_disk
from holdfast.policy.shell_names import likely_name
from holdfast.policy.shell_syntax import Command
from holdfast.policy.shell_words import FROM_INPUT, Word

_FORMATS = frozenset(("mkfs", "mke2fs", "mkswap", "wipefs", "blkdiscard", "sgdisk", "sfdisk"))
_WRITES_DISKS = frozenset(("dd", "shred", "tee", "truncate", "badblocks"))
_COPIES = frozenset(("cp", "mv", "install"))
_RECURSIVE = frozenset(("rm", "chmod", "chown", "chgrp"))
_MOVES = frozenset(("rm", "mv", "rmdir", "chmod", "chown", "chgrp", "shred"))
# Find's words that still leave everything below its paths to be removed.
_FIND_ALL = frozenset(("-delete", "-depth", "-xdev", "-mount", "-mindepth", "-maxdepth", "-type", "-print"))
_FIND_VALUES = frozenset(("0", "1", "2", "f", "d", "l"))

# A function that pipes itself into itself or starts itself beside itself, also in a text that is not parsed.
_BOMB = re.compile(
    r"(?<![\w:.-])([\w:.-]{1,64})\s{0,8}\(\s{0,8}\)\s{0,8}\{[^{}]{0,200}?(?<![\w:.-])\1\s{0,8}"
    r"(?:\|&?\s{0,8}|&(?!&)(?:[^{}]{0,200}?(?<![\w:.-]))??)\1(?![\w:.-])"
)


def bombs(text: str) -> Iterator[str]:
    """Sentences about functions of the text that would start themselves without end."""
    for name in dict.fromkeys(found[1] for found in _BOMB.finditer(text)):
        yield _again_and_again(name)


def dangers(command: Command, places: Places, *, cwds: tuple[str, ...], reads_only: bool) -> Iterator[str]:
    """Sentences that say why the command is denied; none if it is not."""
    for redirect in command.redirects:
        if redirect.kind in {"write", "append"}:
            for path in places.named(redirect.target, cwds):
                if is_disk(path):
                    yield f"It would overwrite the disk {path}."
                if places.holdfast(path):
                    yield f"It would write to {path}, which is Holdfast's own."
    if command.words:
        yield from _of_program(command, places, cwds=cwds)
        if not reads_only:
            yield from _of_holdfast(command, places, cwds=cwds)


def losses(command: Command, places: Places, *, cwds: tuple[str, ...]) -> Iterator[str]:
    """Sentences that say that the workspace as a whole would be gone: allowed, but never unasked."""
    name, words = likely_name(command.words[0]), command.words[1:]
    starts = tuple(word for word in words if not word.text.startswith("-"))
    if name in {"rm", "mv", "rmdir"} or (name == "find" and _removes_all(words)):
        for word in starts:
            if places.workspace in places.emptied(word, cwds):
                yield f"`{name}` would take the whole workspace away."


def _of_program(command: Command, places: Places, *, cwds: tuple[str, ...]) -> Iterator[str]:
    name, words = likely_name(command.words[0]), command.words[1:]
    if name in command.functions and command.forks:
        yield _again_and_again(name)
    if name.partition(".")[0] in _FORMATS or name in _WRITES_DISKS or name in _COPIES:
        for word in words[-1:] if name in _COPIES else words:
            for path in sorted(places.mentioned(word, cwds)):
                if is_disk(path) and not word.text.startswith("if="):
                    yield f"`{name}` would overwrite the disk {path}."
    if name == "rm" and any(_abbreviates(word.text, "--no-preserve-root", chars_min=5) for word in words):
        yield "`rm` is told to remove even the root of the disk."
    if name in _RECURSIVE and any(_is_recursive(word) for word in words):
        yield from _of_everything(name, words, places, cwds=cwds)
    if name == "find" and _removes_all(words):
        starts = [word for word in words if not word.text.startswith("-")]
        yield from _of_everything(name, tuple(starts), places, cwds=cwds)


def _again_and_again(name: str) -> str:
    return f"`{name}` calls itself again and again (a fork bomb)."


def _of_everything(
    name: str, words: tuple[Word, ...], places: Places, *, cwds: tuple[str, ...]
) -> Iterator[str]:
    """A recursive change of something that is too dear to lose."""
    for word in words:
        for path in sorted(places.emptied(word, cwds)):
            if not word.text.startswith("-") and word.text and places.dear(path):
                yield f"`{name}` would reach everything below {path}."


def _of_holdfast(command: Command, places: Places, *, cwds: tuple[str, ...]) -> Iterator[str]:
    """Any program but a reader that is given Holdfast's own files, or told to move what is above them."""
    name = likely_name(command.words[0])
    for word in command.words[1:]:
        for path in sorted(places.mentioned(word, cwds)):
            if places.holdfast(path) or (name in _MOVES and places.above_holdfast(path)):
                yield f"`{name}` is not to touch {path}: what Holdfast keeps there is its own."


def _is_recursive(word: Word) -> bool:
    """Whether an option makes rm, chmod and the like go down into directories."""
    text = word.text
    if text.startswith("--"):
        return _abbreviates(text, "--recursive", chars_min=3)
    return text.startswith("-") and ("r" in text or "R" in text)


def _abbreviates(text: str, option: str, *, chars_min: int) -> bool:
    return len(text) >= chars_min and option.startswith(text)


def _removes_all(words: tuple[Word, ...]) -> bool:
    """Whether find removes whatever it meets: -delete, or -exec rm, without a test that leaves things out."""
    # What xargs adds may be anything, also nothing.
    texts = [word.text for word in words if word.why != FROM_INPUT]
    first = next((at for at, text in enumerate(texts) if text.startswith("-")), len(texts))
    expression = texts[first:]
    for at, text in enumerate(expression):
        if text in {"-exec", "-execdir"}:
            runs_rm = expression[at + 1 : at + 2] == ["rm"] or "rm" in expression[at + 1 : at + 4]
            return runs_rm and all(each in _FIND_ALL | _FIND_VALUES for each in expression[:at])
    return "-delete" in expression and all(each in _FIND_ALL | _FIND_VALUES for each in expression)
