"""File names that a command builds itself: backups, numbered parts, renaming by a pattern.

Such a name is in no word of the command, and may still be that of a file that runs later.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from holdfast.policy.autorun_files import autorun_in, is_autorun, may_become_autorun, written_later
from holdfast.policy.path_facts import PathFacts
from holdfast.policy.shell.words import Word
from holdfast.policy.verdicts import PolicyFinding

# fmt: off
# Every name that these make comes from a pattern, or from a file that says how to rename.
_BY_PATTERN = frozenset((
    "rename", "rename.ul", "prename", "file-rename", "perl-rename", "mmv", "mcp", "mln", "mad", "zmv", "qmv",
    "qcp", "imv", "icp", "vidir", "brename", "rnr", "nomino", "f2", "massren", "detox", "convmv", "savelog",
    "logrotate", "git checkout-index",
))
# fmt: on
_PACKERS = frozenset(
    ("gzip", "gunzip", "xz", "unxz", "lzma", "unlzma", "pigz", "unpigz", "uncompress", "compress")
)
_STORED_NAME = re.compile(r"-[a-zA-Z]*N[a-zA-Z]*|--name")
_LONG_SUFFIX = re.compile(r"--su[a-z]*")
_LETTER_SUFFIX = re.compile(r"-[a-zA-RT-Z]*S(.*)", re.DOTALL)
_HAS_LETTER = frozenset(("cp", "mv", "ln", "install", *_PACKERS))
_HAS_SUFFIX = frozenset(("rsync", *_HAS_LETTER))
_HARMLESS_SUFFIX = re.compile(r"~|\.(?:bak|orig|old|backup|gz|xz|lzma)")
_IN_PLACE = {
    "sed": re.compile(r"-[nErsuz]*i(.+)|--in?[a-z-]*=(.+)", re.DOTALL),
    "perl": re.compile(r"-[a-zA-Z0-9]*?i(.+)", re.DOTALL),
}
_SPLITS = frozenset(("split", "csplit"))
_ENDING = re.compile(r"--ad[a-z-]*")
_FORMAT = re.compile(r"(?:-[a-z]*b|--su[a-z-]*=?)(.*)", re.DOTALL)
_PLAIN_FORMAT = re.compile(r"%0?[1-9]?[dux](?:\.(?:txt|log|csv|part))?")


def new_names(
    name: str, words: tuple[Word, ...], facts: PathFacts, *, cwds: tuple[str, ...]
) -> Iterator[PolicyFinding]:
    """Reasons to ask about a command because of the names that it would build."""
    if name in _BY_PATTERN:
        yield PolicyFinding(
            "write_outside",
            f"`{name}` builds file names from a pattern, and may create a file that other programs run.",
        )
    if name in _HAS_SUFFIX:
        yield from _suffixes(name, words)
    if name in _PACKERS and any(_STORED_NAME.fullmatch(word.text) for word in words[1:]):
        yield PolicyFinding("write_outside", f"`{name}` takes a file name from the archive.")
    if name in _IN_PLACE:
        yield from _backups(name, words, facts, cwds=cwds)
    if name in _SPLITS:
        yield from _parts(name, words, facts)


def _suffixes(name: str, words: tuple[Word, ...]) -> Iterator[PolicyFinding]:
    """A suffix chosen by the command can turn an existing name into any other."""
    for at, word in enumerate(words[1:], start=1):
        long, joined, value = word.text.partition("=")
        letter = _LETTER_SUFFIX.fullmatch(word.text) if name in _HAS_LETTER else None
        if letter is None and not _LONG_SUFFIX.fullmatch(long):
            continue
        suffix = letter[1] if letter else value
        if not suffix and not joined:
            suffix = "".join(each.text for each in words[at + 1 : at + 2])
        if not _HARMLESS_SUFFIX.fullmatch(suffix):
            yield PolicyFinding(
                "write_outside", f"`{name}` can create any file name with the suffix `{suffix}`."
            )


def _backups(
    name: str, words: tuple[Word, ...], facts: PathFacts, *, cwds: tuple[str, ...]
) -> Iterator[PolicyFinding]:
    """The copies that an in-place edit leaves; a star in the suffix is the file's name."""
    found = [match for word in words[1:] if (match := _IN_PLACE[name].fullmatch(word.text))]
    for suffix in (next(filter(None, match.groups())) for match in found):
        if "*" in suffix or "/" in suffix:
            yield PolicyFinding(
                "write_outside", f"`{name}` can create any file name with the suffix `{suffix}`."
            )
            continue
        for path in sorted({path for word in words[1:] for path in facts.named(word, cwds)}):
            if autorun_in(path + suffix, facts):
                yield PolicyFinding("write_outside", written_later(path + suffix))


def _parts(name: str, words: tuple[Word, ...], facts: PathFacts) -> Iterator[PolicyFinding]:
    """The parts of a split file: a prefix, a counter and perhaps an ending."""
    ending = ""
    for before, word in pairwise(words):
        long, joined, value = word.text.partition("=")
        if joined and _ENDING.fullmatch(long):
            ending = value
        elif _ENDING.fullmatch(before.text):
            ending = word.text
    if name == "csplit":
        yield from _formats(words)
    for word in words[1:]:
        texts = facts.spellings(word)
        texts = [text.partition("=")[2] if text.startswith("--") else text for text in texts]
        texts += [text[2:] for text in texts if text.startswith("-")]
        for text in texts:
            if text and (may_become_autorun(text, ending) or is_autorun(text + ending)):
                yield PolicyFinding(
                    "write_outside", f"`{name}` may turn `{text}` into a file that other programs run later."
                )
                return


def _formats(words: tuple[Word, ...]) -> Iterator[PolicyFinding]:
    """A counter's format may be any text, even without a counter."""
    for at, word in enumerate(words[1:], start=1):
        found = _FORMAT.fullmatch(word.text)
        if found is None:
            continue
        text = found[1] or "".join(each.text for each in words[at + 1 : at + 2])
        if not _PLAIN_FORMAT.fullmatch(text):
            yield PolicyFinding(
                "write_outside", f"`csplit` can create any file name with the format `{text}`."
            )
