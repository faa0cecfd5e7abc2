"""Shell commands that would change files which act later, or make links that later steps would go through."""

import posixpath
import re
from collections.abc import Iterator
from itertools import pairwise, product

from holdfast.policy.lasting_files import is_lasting, lasting_in, may_hold_lasting, unpacked, written_later
from holdfast.policy.places import Below, Places, is_repository_file, is_within
from holdfast.policy.shell_commands import Command
from holdfast.policy.shell_names import likely_name
from holdfast.policy.shell_words import Word
from holdfast.policy.verdicts import Finding

PAIRS_MAX = 24

_COPIES = frozenset(("cp", "mv", "install", "ln", "rsync", "ditto"))
_USES_ONLY = frozenset(("make", "gmake", "just", "rake", "task"))
# fmt: off
# Git's commands that write files of the working tree which they are given.
_GIT_WRITES = frozenset((
    "apply", "am", "mv", "rm", "checkout", "restore", "checkout-index", "read-tree", "clean", "reset",
    "switch", "worktree", "sparse-checkout", "init", "clone", "submodule", "stash", "config",
    "update-index",
))
# fmt: on
# The words that have a program take files out of an archive, each as a whole.
_TAR = r"-?[A-Za-z]*x[A-Za-z]*|--(?:ex|ge).*"
_UNPACKS = {
    **dict.fromkeys(("tar", "bsdtar", "gtar", "star"), _TAR),
    **dict.fromkeys(("7z", "7za", "7zr", "7zz", "unrar"), r"[xe]"),
    **dict.fromkeys(("ar", "jar"), r"-?[a-z]*x[a-z]*"),
    **dict.fromkeys(("zipfile", "tarfile"), r"-e|--ext.*"),
    "cpio": r"-[a-zA-Z]*[ip].*|--.*",
    "pax": r"-[a-z]*r[a-z]*",
}
# The words that have a program which writes files look at its archive or patch instead.
_LOOKS = {
    "unzip": r"-q*[lvtpzZ]q*",
    "patch": r"--dry-run",
    "unar": r"-[vh]",
    "apply": r"--(?:stat|numstat|summary|check)",
}
_RECURSIVE = re.compile(r"-[a-zA-Z]*[aRrd][a-zA-Z]*|--(?:rec|arc|no-d).*")
_INTO = frozenset(("-t", "--target-directory"))


def lasting_findings(command: Command, places: Places, *, cwds: tuple[str, ...]) -> Iterator[Finding]:
    """Reasons to ask about a command that does not only read, because of what would act later."""
    name, words = _called(command)
    uses_only = _uses_only(name, words)
    for word in words[1:]:
        for path in sorted(places.mentioned(word, cwds)):
            for each in dict.fromkeys((path, unpacked(path))):
                if lasting_in(each, places) and not (uses_only and not is_repository_file(each)):
                    yield Finding("write_outside", written_later(each))
    if _unpacks(name, words):
        yield Finding(
            "write_outside", f"`{name}` may bring files that have their effect later, such as hooks."
        )
    if name in _COPIES:
        yield from _brought(name, words, places, cwds=cwds)


def links_made(command: Command, places: Places, *, cwds: tuple[str, ...]) -> frozenset[str]:
    """The places where the command may leave a link."""
    if not command.words:
        return frozenset()
    name, words = _called(command)
    if name not in _COPIES:
        return frozenset()
    sources, targets = _operands(words)
    if len(sources) * len(targets) > PAIRS_MAX:
        return frozenset(path for target in targets for path in places.named(target, cwds))
    found: set[str] = set()
    for source, target in product(sources, targets):
        for path in _spelled(source, places, cwds):
            below = places.below(path)
            if name == "ln" or below.links or not below.known:
                found |= {place for there in places.named(target, cwds) for place in _places(there, path)}
    return frozenset(found)


def through_links(
    command: Command, places: Places, *, cwds: tuple[str, ...], links: frozenset[str]
) -> Iterator[Finding]:
    """Reasons to ask about a command that would go where an earlier step may have put a link."""
    if not links:
        return
    words = (*command.words, *(redirect.target for redirect in command.redirects))
    paths = {path for word in words for path in places.mentioned(word, cwds)} | set(cwds)
    for path in sorted(paths):
        if any(is_within(path, link) for link in links):
            yield Finding(
                "outside", f"{path} may lead elsewhere by then, because an earlier step can make a link."
            )


def _called(command: Command) -> tuple[str, tuple[Word, ...]]:
    """The program's name and its words; for git, and for python -m, those of what it is told to do."""
    name, words = likely_name(command.words[0]).lower(), command.words
    texts = [word.text for word in words]
    if name in {"python", "pypy"} and texts[1:2] == ["-m"] and len(words) > 2:  # noqa: PLR2004 - a module's name
        return texts[2], words[2:]
    if name == "git":
        at = 1
        while at < len(texts) and texts[at].startswith("-"):
            at += 2 if texts[at] in {"-C", "-c", "--git-dir", "--work-tree"} else 1
        return (f"git {texts[at]}", words[at:]) if at < len(texts) else (name, words)
    return name, words


def _uses_only(name: str, words: tuple[Word, ...]) -> bool:
    """Whether the program reads or runs the files that it is given, and leaves them as they are."""
    return name in _USES_ONLY or (name.startswith("git ") and words[0].text not in _GIT_WRITES)


def _unpacks(name: str, words: tuple[Word, ...]) -> bool:
    """Whether files come out of an archive or a patch, under names that are not seen here."""
    name = name.removeprefix("git ")
    texts = [word.text for word in words[1:]]
    if name in _UNPACKS:
        # The first word may be letters without a dash, and some have a word for it wherever it stands.
        options = [text for nth, text in enumerate(texts) if nth == 0 or text[:1] == "-" or len(text) == 1]
        return any(re.fullmatch(_UNPACKS[name], text) for text in options)
    if name in _LOOKS:
        return not any(re.fullmatch(_LOOKS[name], text) for text in texts)
    return name == "am"


def _brought(
    name: str, words: tuple[Word, ...], places: Places, *, cwds: tuple[str, ...]
) -> Iterator[Finding]:
    """Reasons to ask about a copy, a move or a link, by what would lie where afterwards."""
    whole = name in {"mv", "ln", "ditto"} or any(_RECURSIVE.fullmatch(word.text) for word in words[1:])
    sources, targets = _operands(words)
    if whole and len(sources) * len(targets) > PAIRS_MAX:
        yield Finding("write_outside", f"`{name}` names too many files to look into each.")
        return
    for source in sources:
        for path in sorted(_spelled(source, places, cwds)):
            below = places.below(path) if whole and name != "ln" else Below()
            inner = next((each for each in below.names if is_lasting(each)), None)
            if not below.known:
                yield Finding("write_outside", f"What `{name}` would bring along from {path} is not known.")
            elif inner is not None:
                yield Finding("write_outside", written_later(posixpath.normpath(posixpath.join(path, inner))))
            for there in sorted(each for target in targets for each in places.named(target, cwds)):
                for place in _places(there, path):
                    if lasting_in(place, places):
                        yield Finding("write_outside", written_later(place))
                    elif whole and may_hold_lasting(place):
                        yield Finding("write_outside", f"`{name}` may bring {place} files that act later.")


def _spelled(word: Word, places: Places, cwds: tuple[str, ...]) -> frozenset[str]:
    """The paths that a word may name, their links not followed: a copy or a move takes those along."""
    return frozenset(posixpath.join(cwd, text) for text in places.spellings(word) for cwd in cwds)


def _places(there: str, path: str) -> tuple[str, ...]:
    """Where a path may come to lie that is copied to another: in its place, or in it."""
    name = posixpath.basename(posixpath.normpath(path))
    return there, posixpath.join(there, name)


def _operands(words: tuple[Word, ...]) -> tuple[list[Word], list[Word]]:
    """What is copied, and where to; -t may name the place, apart or joined."""
    sources: list[Word] = []
    into: list[Word] = []
    for before, word in pairwise(words):
        option, joined, value = word.text.partition("=")
        if before.text in _INTO:
            into.append(word)
        elif joined and option == "--target-directory":
            into.append(Word(value, word.why))
        elif re.match(r"-[a-zA-Z]*t.", word.text):
            into.append(Word(word.text.partition("t")[2], word.why))
        elif not word.text.startswith("-"):
            sources.append(word)
    if into:
        return sources, into
    return (sources[:-1], sources[-1:]) if len(sources) > 1 else (sources, [Word(".")])
