"""What no mode, rule or grant allows: wiping a disk or a home, fork bombs, changing Holdfast's own files.

Words are read generously: escapes and home directories are expanded as far as the text shows them, and a
program counts under any path. What is not recognised here still needs approval.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from holdfast.policy.path_facts import PathFacts, is_disk
from holdfast.policy.shell.commands import SimpleCommand
from holdfast.policy.shell.option_tables import READERS
from holdfast.policy.shell.words import EXPANDED, FROM_INPUT, JOINED, Word, likely_name

_FORMATS = frozenset(("mkfs", "mke2fs", "mkswap", "wipefs", "blkdiscard", "sgdisk", "sfdisk"))
_WRITES_DISKS = frozenset(("dd", "shred", "tee", "truncate", "badblocks"))
_COPIES = frozenset(("cp", "mv", "install"))
_RECURSIVE = frozenset(("rm", "chmod", "chown", "chgrp"))
_INTO = frozenset(("-t", "--target-directory"))
_MOVES = frozenset(("rm", "mv", "rmdir", "chmod", "chown", "chgrp", "shred"))
_MV_PLAIN = re.compile(
    r"-[finuv]+|--(?:force|interactive|no-clobber|update|verbose)|-t|--target-directory(?:=.*)?", re.DOTALL
)
# Find's words that still leave everything below its paths, or nearly, to be removed.
# fmt: off
_FIND_ALL = frozenset((
    "-delete", "-depth", "-xdev", "-mount", "-print", "-print0", "-true", "-noleaf", "-follow", "-daystart",
    "(", ")", "-a", "-and", ",",
))
# fmt: on
_FIND_SOME = frozenset(("-mindepth", "-maxdepth", "-type", "-xtype"))
_FIND_NAMES = frozenset(("-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename"))
_FIND_FIRST = re.compile(r"-[HLP]+|-O\d*")
_ANY_NAME = re.compile(r"[/.]*+\*[*/.]*+")
_SHELLS = frozenset(("sh", "bash", "dash"))
_FIRST_WORDS = 4  # among which a program stands, wrapped or not
_REMOVES = re.compile(r"(?:^|[\s/;&|(])(?:rm|unlink|shred)(?:\s|$)")

# A function that pipes itself into itself or starts itself beside itself, also in a text that is not parsed.
_BOMB = re.compile(
    r"(?<![\w:.-])([\w:.-]{1,64})\s{0,8}\(\s{0,8}\)\s{0,8}\{[^{}]{0,200}?(?<![\w:.-])\1\s{0,8}"
    r"(?:\|&?\s{0,8}|&(?!&)(?:[^{}]{0,200}?(?<![\w:.-]))??)\1(?![\w:.-])"
)


def bombs(text: str) -> Iterator[str]:
    """Sentences about functions in the text that would start themselves forever."""
    for name in dict.fromkeys(found[1] for found in _BOMB.finditer(text)):
        yield _again_and_again(name)


def circles(commands: Sequence[SimpleCommand]) -> Iterator[str]:
    """Sentences about functions that start themselves concurrently, directly or through each other."""
    calls: dict[str, set[str]] = {}
    for command in commands:
        for function in command.functions if command.words else ():
            calls.setdefault(function, set()).add(likely_name(command.words[0]))
    for command in commands:
        name = likely_name(command.words[0]) if command.words and command.forks else ""
        if name in calls and not command.functions.isdisjoint(_reached(name, calls)):
            yield _again_and_again(name)


def _reached(name: str, calls: Mapping[str, set[str]]) -> set[str]:
    """The functions that a function calls, directly or indirectly, and itself."""
    found, ahead = {name}, [name]
    while ahead:
        new = calls.get(ahead.pop(), set()) - found
        found |= new
        ahead += new
    return found


def dangers(
    command: SimpleCommand, facts: PathFacts, *, cwds: tuple[str, ...], reads_only: bool
) -> Iterator[str]:
    """Sentences that say why the command is refused; none if it is not."""
    for redirect in command.redirects:
        if redirect.kind in {"write", "append"}:
            for path in facts.named(redirect.target, cwds):
                if is_disk(path):
                    yield f"It would overwrite the disk {path}."
                if facts.holdfast(path):
                    yield f"It would write to {path}, which belongs to Holdfast."
    if command.words:
        yield from _of_program(command, facts, cwds=cwds)
        if not reads_only:
            yield from _of_holdfast(command, facts, cwds=cwds)


def losses(command: SimpleCommand, facts: PathFacts, *, cwds: tuple[str, ...]) -> Iterator[str]:
    """Sentences that say that the whole workspace would be gone: allowed, but only with approval."""
    name, words = _name(command), command.words[1:]
    starts = tuple(word for word in words if not word.text.startswith("-"))
    if name in {"rm", "mv", "rmdir"} or (name == "find" and _removes_all(words)):
        for word in starts:
            if facts.workspace in facts.emptied(word, cwds):
                yield f"`{name}` would remove the whole workspace."


def _name(command: SimpleCommand) -> str:
    """The program's name in lower case, for disks that ignore case."""
    return likely_name(command.words[0]).lower()


def _of_program(command: SimpleCommand, facts: PathFacts, *, cwds: tuple[str, ...]) -> Iterator[str]:
    name, words = _name(command), command.words[1:]
    operands = tuple(word for word in words if not word.text.startswith("-"))
    if name.partition(".")[0] in _FORMATS or name in _WRITES_DISKS or name in _COPIES:
        for word in _targets(words) if name in _COPIES else words:
            for path in sorted(facts.mentioned(word, cwds)):
                if is_disk(path) and not word.text.startswith("if="):
                    yield f"`{name}` would overwrite the disk {path}."
    if name == "rm" and any(_abbreviates(word.text, "--no-preserve-root", chars_min=5) for word in words):
        yield "`rm` is told to remove even the root directory."
    if name in _RECURSIVE and any(_is_recursive(word) for word in words):
        yield from _of_everything(name, words, facts, cwds=cwds)
    if name == "mv":
        yield from _of_everything(name, _moved(words), facts, cwds=cwds)
    if name == "find" and _removes_all(words):
        yield from _of_everything(name, operands, facts, cwds=cwds)


def _moved(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """Return the operands of mv without the target."""
    into = any(word.text.partition("=")[0] in _INTO for word in words)
    after = {at + 1 for at, word in enumerate(words) if word.text in _INTO}
    moved = tuple(word for at, word in enumerate(words) if not word.text.startswith("-") and at not in after)
    return moved if into else moved[:-1]


def _targets(words: tuple[Word, ...]) -> Iterator[Word]:
    """Where cp and the like write: the last operand, or what -t names, in any order."""
    # What xargs adds may be the last one, or nothing.
    operands = [word for word in words if not word.text.startswith("-") and word.why != FROM_INPUT]
    yield from operands[-1:]
    yield from (word for word in words if word.text.startswith("-"))
    yield from (after for word, after in pairwise(words) if word.text in _INTO)


def _again_and_again(name: str) -> str:
    return f"`{name}` keeps starting itself (a fork bomb)."


def _of_everything(
    name: str, words: tuple[Word, ...], facts: PathFacts, *, cwds: tuple[str, ...]
) -> Iterator[str]:
    """A recursive change to something vital."""
    for word in words:
        for path in sorted(facts.emptied(word, cwds)):
            if not word.text.startswith("-") and word.text and facts.dear(path):
                yield f"`{name}` would affect everything below {path}{_if_empty(word)}."


def _if_empty(word: Word) -> str:
    """Judge a variable at the beginning of a path."""
    is_variable = word.text.lstrip('"').startswith("$") and word.why in {EXPANDED, JOINED}
    return " if the variable is empty; write ${NAME:?} to make sure it is set" if is_variable else ""


def _of_holdfast(command: SimpleCommand, facts: PathFacts, *, cwds: tuple[str, ...]) -> Iterator[str]:
    """Any program that does more than read Holdfast's own files, or moves a folder above them."""
    name, words = _name(command), command.words[1:]
    taken = _taken(name, words)
    for word in words:
        for path in sorted(facts.mentioned(word, cwds)):
            if facts.holdfast(path) or (word in taken and facts.above_holdfast(path)):
                yield f"`{name}` must not touch {path}: it belongs to Holdfast."


def _taken(name: str, words: tuple[Word, ...]) -> frozenset[Word]:
    """Return the paths that a program moves, removes, or changes as a whole."""
    if name != "mv":
        return frozenset(words if name in _MOVES else ())
    options = [word.text for word in words if word.text.startswith("-")]
    # Another one may take away what stands in the way (-bT, --exchange), or name the place itself (-t/x).
    return frozenset(_moved(words) if all(map(_MV_PLAIN.fullmatch, options)) else words)


def _is_recursive(word: Word) -> bool:
    """Whether an option makes rm, chmod and the like recursive."""
    text = word.text
    if text.startswith("--"):
        return _abbreviates(text, "--recursive", chars_min=3)
    return text.startswith("-") and ("r" in text or "R" in text)


def _abbreviates(text: str, option: str, *, chars_min: int) -> bool:
    return len(text) >= chars_min and option.startswith(text)


def _removes_all(words: tuple[Word, ...]) -> bool:
    """Whether find removes nearly everything it finds: -delete or -exec rm without a narrow test."""
    # What xargs adds may be anything, also nothing.
    texts = [word.text for word in words if word.why != FROM_INPUT]
    while texts and (_FIND_FIRST.fullmatch(texts[0]) or texts[0] == "-D"):
        del texts[: 2 if texts[0] == "-D" else 1]
    first = next((at for at, text in enumerate(texts) if text[:1] in {"-", "!", "("}), len(texts))
    expression = texts[first:]
    for at, text in enumerate(expression):
        if text in {"-exec", "-execdir"}:
            runs = [each for each in expression[at + 1 :] if each not in {"{}", ";", "+"}]
            return _is_removal(runs) and _leaves_nothing_out(expression[:at])
    return "-delete" in expression and _leaves_nothing_out(expression)


def _is_removal(runs: list[str]) -> bool:
    """Whether a command that find runs removes files, by its name or by its text for a shell."""
    first = runs[:_FIRST_WORDS]
    names = [each.rpartition("/")[2] for each in first]
    if names and names[0] in READERS:
        return False
    # Other programs than a shell may be given a text that only speaks of a removal.
    hits = runs if not _SHELLS.isdisjoint(names) else [each for each in first if " " not in each]
    return any(_REMOVES.search(each) for each in hits)


def _leaves_nothing_out(expression: list[str]) -> bool:
    """Whether the tests of find match nearly everything: no test, any name, or all but some."""
    at = 0
    while at < len(expression):
        text, value = expression[at], "".join(expression[at + 1 : at + 2])
        if text in {"!", "-not"}:
            at += 3
        elif text in _FIND_SOME or (text in _FIND_NAMES and _ANY_NAME.fullmatch(value)):
            at += 2
        elif text in _FIND_ALL:
            at += 1
        else:
            return False
    return True
