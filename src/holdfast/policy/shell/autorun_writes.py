"""Shell commands that change files that run later, or create links that later steps would follow.

File names that a command builds itself: backups, numbered parts, renaming by a pattern. Such a name is in no
word of the command, and may still be that of a file that runs later.
"""

import posixpath
import re
import sys
from collections.abc import Iterator
from itertools import pairwise, product

from holdfast.interfaces.workspace_paths import is_repository_file, is_within
from holdfast.policy.autorun_files import (
    autorun_in,
    is_autorun,
    may_become_autorun,
    may_hold_autorun,
    unpacked,
    written_later,
)
from holdfast.policy.path_facts import Below, PathFacts
from holdfast.policy.shell.commands import SimpleCommand
from holdfast.policy.shell.words import Word, likely_name
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
            "autorun",
            f"`{name}` builds file names from a pattern, and may create a file that other programs run.",
        )
    if name in _HAS_SUFFIX:
        yield from _suffixes(name, words)
    if name in _PACKERS and any(_STORED_NAME.fullmatch(word.text) for word in words[1:]):
        yield PolicyFinding("autorun", f"`{name}` takes a file name from the archive.")
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
            yield PolicyFinding("autorun", f"`{name}` can create any file name with the suffix `{suffix}`.")


def _backups(
    name: str, words: tuple[Word, ...], facts: PathFacts, *, cwds: tuple[str, ...]
) -> Iterator[PolicyFinding]:
    """The copies that an in-place edit leaves; a star in the suffix is the file's name."""
    found = [match for word in words[1:] if (match := _IN_PLACE[name].fullmatch(word.text))]
    for suffix in (next(filter(None, match.groups())) for match in found):
        if "*" in suffix or "/" in suffix:
            yield PolicyFinding("autorun", f"`{name}` can create any file name with the suffix `{suffix}`.")
            continue
        for path in sorted({path for word in words[1:] for path in facts.named(word, cwds)}):
            if autorun_in(path + suffix, facts):
                yield PolicyFinding("autorun", written_later(path + suffix))


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
                    "autorun", f"`{name}` may turn `{text}` into a file that other programs run later."
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
            yield PolicyFinding("autorun", f"`csplit` can create any file name with the format `{text}`.")


PAIRS_MAX = 24
GIT_DIRECTORIES_MAX = 8

_COPIES = frozenset(("cp", "mv", "install", "ln", "rsync", "ditto"))
# These keep the files that they name as they are. Others that are not known to only read are asked about.
#
# Programs that run what one of their options names. As a target or in a variable a file may well be made.
_RUNS = {
    **dict.fromkeys(("make", "gmake"), re.compile(r"-[fCI]|--(?:file|makefile|directory|include-dir)")),
    **dict.fromkeys(("just", "rake"), re.compile(r"-f|--justfile|--rakefile")),
    "task": re.compile(r"-t|--taskfile"),
    **dict.fromkeys(("pytest", "py.test"), re.compile(r"--ignore|--deselect")),
}
# Programs that check files, with the options that leave it at that.
_CHECKS = {
    "prettier": re.compile(r"-c|--check|-l|--list-different"),
    "shellcheck": re.compile(r"-.*"),  # it never writes
    "yamllint": re.compile(r"-s|--strict"),
    "markdownlint": re.compile(r"-q|--quiet"),
    "actionlint": re.compile(r"-(?:verbose|no-color|color|oneline)"),
}
_CHECKS_IF_TOLD = frozenset(("prettier",))  # without an option these print what they would write
# Git records the content of these, or forgets that it did.
_GIT_RECORDS = frozenset(("add", "stage", "commit"))
_FORGETS = frozenset(("--cached", "-r", "-f", "-q", "-rf", "-n"))
# Git shows these, and writes only where --output says: blame and its like heed that as well.
# fmt: off
_GIT_SHOWS = frozenset((
    "status", "diff", "diff-files", "diff-index", "diff-tree", "log", "show", "whatchanged", "shortlog",
    "range-diff", "blame", "annotate", "grep", "ls-files", "ls-tree", "cat-file", "check-ignore",
    "check-attr", "rev-parse", "rev-list", "describe", "hash-object", "name-rev", "show-ref", "merge-base",
))
_GIT_VALUED = frozenset((
    "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--attr-source", "--super-prefix",
))
# fmt: on
_OUTPUT = re.compile(r"--o(?:u.*|=.*)?")
LETTERS_MAX = 8
NAME_CHARS_MAX = 40  # longer than any name that counts
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


def autorun_findings(
    command: SimpleCommand, facts: PathFacts, *, cwds: tuple[str, ...]
) -> Iterator[PolicyFinding]:
    """Reasons to ask about a command that writes, because of files that run later."""
    name, words = _called(command)
    cwds = _git_directories(command.words, facts, cwds) if name.startswith("git") else cwds
    left_alone = _left_alone(name, words)
    for at, word in enumerate(command.words[1:], start=1 - len(command.words)):
        for path in sorted(facts.mentioned(word, cwds) | _behind_letters(word, facts, cwds)):
            for each in dict.fromkeys((path, unpacked(path))):
                if autorun_in(each, facts) and (at not in left_alone or is_repository_file(each)):
                    yield PolicyFinding("autorun", written_later(each))
    yield from new_names(name, words, facts, cwds=cwds)
    if _unpacks(name, words):
        yield PolicyFinding("autorun", f"`{name}` may add files that run later, such as hooks.")
    if name in _COPIES:
        yield from _brought(name, words, facts, cwds=cwds)


def links_made(command: SimpleCommand, facts: PathFacts, *, cwds: tuple[str, ...]) -> frozenset[str]:
    """The paths where the command may leave a link."""
    if not command.words:
        return frozenset()
    name, words = _called(command)
    if name not in _COPIES:
        return frozenset()
    sources, targets = _operands(words)
    if len(sources) * len(targets) > PAIRS_MAX:
        return frozenset(path for target in targets for path in facts.named(target, cwds))
    found: set[str] = set()
    for source, target in product(sources, targets):
        for path in _spelled(source, facts, cwds):
            below = facts.below(path)
            if name == "ln" or below.links or not below.known:
                found |= {place for there in facts.named(target, cwds) for place in _places(there, path)}
    return frozenset(found)


def through_links(
    command: SimpleCommand, facts: PathFacts, *, cwds: tuple[str, ...], links: frozenset[str]
) -> Iterator[PolicyFinding]:
    """Reasons to ask about a command that may follow a link made by an earlier step."""
    if not links:
        return
    words = (*command.words, *(redirect.target for redirect in command.redirects))
    paths = {path for word in words for path in facts.mentioned(word, cwds)} | set(cwds)
    for path in sorted(paths):
        if any(is_within(path, link) for link in links):
            yield PolicyFinding(
                "outside", f"{path} may point elsewhere by then, because an earlier step can create a link."
            )


def _called(command: SimpleCommand) -> tuple[str, tuple[Word, ...]]:
    """The program's name and its words; for git and python -m, those of the subcommand or module."""
    name, words = likely_name(command.words[0]).lower(), command.words
    texts = [word.text for word in words]
    if name in {"python", "pypy"} and texts[1:2] == ["-m"] and len(words) > 2:  # noqa: PLR2004 - a module's name
        return texts[2], words[2:]
    if name == "git":
        at = 1
        while at < len(texts) and texts[at].startswith("-"):
            at += 2 if texts[at] in _GIT_VALUED else 1
        return (f"git {texts[at]}", words[at:]) if at < len(texts) else (name, words)
    return name, words


def _git_directories(words: tuple[Word, ...], facts: PathFacts, cwds: tuple[str, ...]) -> tuple[str, ...]:
    """The directories that git's paths may be relative to: each -C continues from the one before."""
    found = cwds
    for before, word in pairwise(words):
        if before.text in {"-C", "--work-tree"}:
            found = (*found, *sorted(facts.named(word, found) - {*found}))[:GIT_DIRECTORIES_MAX]
        elif word.text.startswith("--work-tree="):
            found = (*found, *sorted(facts.mentioned(word, cwds) - {*found}))[:GIT_DIRECTORIES_MAX]
    return found


def _left_alone(name: str, words: tuple[Word, ...]) -> range | frozenset[int]:
    """The positions, counted from the end, of words whose files the program does not change."""
    texts = [word.text for word in words]
    all_of_them = range(-sys.maxsize, 0)
    if name in _RUNS:
        option = _RUNS[name]
        facts = range(1 - len(texts), 0)
        return frozenset(
            at for at in facts if option.fullmatch(texts[at - 1]) or _is_joined(option, texts[at])
        )
    options = [text for text in texts[1:] if text.startswith("-")]
    if name in _CHECKS:
        checks = bool(options) or name not in _CHECKS_IF_TOLD
        known = all(_CHECKS[name].fullmatch(text) for text in options)
        return all_of_them if checks and known else frozenset()
    if not name.startswith("git "):
        return frozenset()
    shows = texts[0] in _GIT_SHOWS and not any(map(_OUTPUT.fullmatch, options))
    forgets = texts[0] == "rm" and "--cached" in options and {*options} <= _FORGETS
    records = texts[0] in _GIT_RECORDS or forgets
    return all_of_them if shows or records else frozenset()


def _is_joined(option: re.Pattern[str], text: str) -> bool:
    """Whether a word is such an option with its value."""
    name, joined, _ = text.partition("=")
    return bool(joined and option.fullmatch(name)) or bool(text[2:] and option.fullmatch(text[:2]))


def _behind_letters(word: Word, facts: PathFacts, cwds: tuple[str, ...]) -> frozenset[str]:
    """The paths that may follow an option's letters, as in -o.vscode; the number of letters is not known."""
    found: set[str] = set()
    for text in facts.spellings(word) if re.match("-[^-]", word.text) else ():
        head = len(text.partition("/")[0])
        starts = {*range(2, 2 + LETTERS_MAX), *range(max(2, head - NAME_CHARS_MAX), head)}
        rests = [text[at:] for at in sorted(starts) if at < len(text)]
        # A link may lead to such a file too, but nobody hides one behind many letters.
        found |= {path for rest in rests[:2] for path in facts.resolved(rest, cwds)}
        found |= {posixpath.normpath(posixpath.join(cwd, rest)) for rest in rests for cwd in cwds}
    return frozenset(found)


def _unpacks(name: str, words: tuple[Word, ...]) -> bool:
    """Whether files are extracted from an archive or a patch, under names that are not visible here."""
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
    name: str, words: tuple[Word, ...], facts: PathFacts, *, cwds: tuple[str, ...]
) -> Iterator[PolicyFinding]:
    """Reasons to ask about a copy, a move or a link, by what would be where afterwards."""
    whole = name in {"mv", "ln", "ditto"} or any(_RECURSIVE.fullmatch(word.text) for word in words[1:])
    sources, targets = _operands(words)
    if whole and len(sources) * len(targets) > PAIRS_MAX:
        yield PolicyFinding("autorun", f"`{name}` names too many files to check each one.")
        return
    for source in sources:
        for path in sorted(_spelled(source, facts, cwds)):
            below = facts.below(path) if whole and name != "ln" else Below()
            inner = next((each for each in below.names if is_autorun(each)), None)
            if not below.known:
                yield PolicyFinding("autorun", f"Holdfast cannot tell what `{name}` would copy from {path}.")
            elif inner is not None:
                yield PolicyFinding("autorun", written_later(posixpath.normpath(posixpath.join(path, inner))))
            for there in sorted(each for target in targets for each in facts.named(target, cwds)):
                for place in _places(there, path):
                    if autorun_in(place, facts):
                        yield PolicyFinding("autorun", written_later(place))
                    elif whole and may_hold_autorun(place):
                        yield PolicyFinding("autorun", f"`{name}` may put files that run later into {place}.")


def _spelled(word: Word, facts: PathFacts, cwds: tuple[str, ...]) -> frozenset[str]:
    """The paths that a word may name, without following links: a copy or a move may include links."""
    return frozenset(posixpath.join(cwd, text) for text in facts.spellings(word) for cwd in cwds)


def _places(there: str, path: str) -> tuple[str, ...]:
    """Where a path ends up when copied to another: in its place, or inside it."""
    name = posixpath.basename(posixpath.normpath(path))
    return there, posixpath.join(there, name)


def _operands(words: tuple[Word, ...]) -> tuple[list[Word], list[Word]]:
    """Return the sources and the target of a copy; -t may name the target, as a separate word or joined."""
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
