"""Finds the repositories that a git command acts in, and the programs that they would make it run."""

import posixpath
from collections.abc import Iterator

from msgspec import Struct

from holdfast.policy.path_facts import PathFacts
from holdfast.policy.repositories import named_programs
from holdfast.policy.shell.programs import NETWORK_SUBCOMMANDS
from holdfast.policy.shell.words import Word
from holdfast.policy.verdicts import PolicyFinding

# fmt: off
_VALUED = frozenset((
    "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path", "--super-prefix",
    "--attr-source",
))
# fmt: on
_NETWORK = NETWORK_SUBCOMMANDS["git"] | {"maintenance", "gc"}


class _GitCommand(Struct, frozen=True):
    """The options before the subcommand that say where git acts, and the subcommand."""

    moves: tuple[Word, ...]
    git_dir: Word | None
    subcommand: str


def repository_findings(
    words: tuple[Word, ...], facts: PathFacts, *, cwds: tuple[str, ...], reads: bool
) -> Iterator[PolicyFinding]:
    """Reasons to ask about a git command because of the repositories that it may act in."""
    command = _read(words)
    network = command.subcommand in _NETWORK and not reads
    for directory in sorted(_moved(cwds, command.moves, facts)):
        git_dirs = facts.named(command.git_dir, (directory,)) if command.git_dir else frozenset(("",))
        for git_dir in sorted(git_dirs):
            yield from named_programs(
                facts.repository(directory, git_dir),
                subcommand=command.subcommand,
                reads=reads,
                network=network,
            )


def _read(words: tuple[Word, ...]) -> _GitCommand:
    moves: list[Word] = []
    git_dir: Word | None = None
    at = 1
    while at < len(words) and words[at].text.startswith("-"):
        option, joined, value = words[at].text.partition("=")
        given = Word(value, words[at].why) if joined else None
        if option in _VALUED and not joined and at + 1 < len(words):
            at += 1
            given = words[at]
        if given is not None and option == "-C":
            moves.append(given)
        elif given is not None and option == "--git-dir":
            git_dir = given
        elif option == "--bare":
            git_dir = git_dir or Word(".")
        at += 1
    return _GitCommand(tuple(moves), git_dir, words[at].text if at < len(words) else "")


def _moved(cwds: tuple[str, ...], moves: tuple[Word, ...], facts: PathFacts) -> frozenset[str]:
    """Every directory that git may start in: each current directory, followed by each -C in turn."""
    found = frozenset(cwds)
    for move in moves:
        here = frozenset(posixpath.normpath(path) for path in found)
        found = frozenset(path for cwd in here for path in facts.named(move, (cwd,)))
    return found
