"""Commands that read secret files without naming them: recursively, from history, or after an option."""

import re
from collections.abc import Iterator

from holdfast.policy.path_facts import PathFacts
from holdfast.policy.secret_names import is_secret
from holdfast.policy.shell.commands import SimpleCommand
from holdfast.policy.shell.option_tables import Reach, ReadVerdict
from holdfast.policy.shell.words import Word, likely_name
from holdfast.policy.verdicts import PolicyFinding

_LETTERS_MAX = 8
_LEAVES_OUT = re.compile(r"--(?:exclude|ignore)|.*[=:]!|-[a-zA-Z]*!", re.DOTALL)
# Programs that take whole directories along: with these letters or options, or always.
_GREP_DOWN = re.compile(r"-[A-Za-z]*[rR][A-Za-z]*|--(?:recursive|dereference-recursive|directories=recurse)")
_INTO = re.compile(r"-[A-Za-z]*t|--t")
_SEARCHES = frozenset(("ag", "ack", "ugrep", "egrep", "fgrep", "zgrep"))
_ANYTHING = re.compile(r".*", re.DOTALL)
_TAKES: dict[str, tuple[Reach, re.Pattern[str]]] = {
    "tar": ("all", re.compile(r"-?[A-Za-z]*[cru][A-Za-z]*|--(?:create|append|update).*")),
    "bsdtar": ("all", re.compile(r"-?[A-Za-z]*[cru][A-Za-z]*|--(?:create|append|update).*")),
    "zip": ("linked", re.compile(r"-[A-Za-z]*r[A-Za-z]*|--recurse.*")),
    "7z": ("all", re.compile(r"a|u")),
    "cp": ("all", re.compile(r"-[A-Za-z]*[rRa][A-Za-z]*|--(?:rec|arch).*")),
    # Some files are known to be secret only by the folder that they are in, which may get another name.
    "mv": ("all", _ANYTHING),
    "rsync": ("all", re.compile(r"-[A-Za-z]*[ra][A-Za-z]*|--(?:rec|arch).*")),
    "ag": ("all", _ANYTHING),
    "ack": ("all", _ANYTHING),
    "ugrep": ("all", _ANYTHING),
    "egrep": ("all", _GREP_DOWN),
    "fgrep": ("all", _GREP_DOWN),
    "zgrep": ("all", _GREP_DOWN),
}
_GIT_VALUED = frozenset(
    ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env")
)
# fmt: off
_GIT_CONTENTS = frozenset((
    "diff", "show", "diff-tree", "diff-index", "diff-files", "cat-file", "grep", "archive", "format-patch",
    "bundle", "range-diff", "fast-export", "difftool", "whatchanged", "unpack-file", "send-email",
))
# fmt: on
_GIT_UNTRACKED = re.compile(r"--(?:unt|no-i)")
_GIT_ADDRESSES = frozenset(("config", "ls-remote", "submodule"))
_GIT_LISTS = frozenset(("log", "reflog", "stash", "rev-list"))
_GIT_PATCH = re.compile(r"-[puULcW].*|--(?:pat|uni|word-d|color-w|cc|dd|bin|rem|diff-m).*", re.DOTALL)
_GIT_SUMMARY = re.compile(
    r"-s|--(?:no-patch|stat|shortstat|numstat|summary|name-only|name-status|dirstat|raw|quiet|compact-summary)"
    r"(?:=.*)?",
    re.DOTALL,
)
_GIT_OF_ONE = frozenset(("-t", "-s", "-e"))  # of cat-file: only what kind of object it is


def secret_reads(
    command: SimpleCommand, reading: ReadVerdict | None, facts: PathFacts, *, cwds: tuple[str, ...]
) -> Iterator[PolicyFinding]:
    """Findings for secrets that a command would read although no operand names one."""
    for word in command.words[1:]:
        for path in sorted(_joined(word, facts, cwds)):
            yield from _seen(f"{path}, which may hold secrets")
    name = likely_name(command.words[0])
    does = "move" if name == "mv" else "read"
    for folder, reach in _taken_along(name, command, reading):
        for path in sorted(facts.named(folder, cwds)):
            yield from _seen(facts.secret_finder.secret_below(path, reach=reach), does)
    if name == "git":
        yield from _from_git(command, facts, cwds=cwds)


def _joined(word: Word, facts: PathFacts, cwds: tuple[str, ...]) -> Iterator[str]:
    """Secret files that directly follow an option's letters (-f.env) or its = (--file=.env)."""
    text = facts.expanded(word)
    if not text.startswith("-") or _LEAVES_OUT.match(text):
        return
    if text.startswith("--"):
        values = [text.partition("=")[2]]
    else:
        values = [text[at:] for at in range(2, min(len(text), _LETTERS_MAX))]
    for value in filter(None, values):
        yield from filter(is_secret, facts.resolved(value.removeprefix("="), cwds))


def _taken_along(
    name: str, command: SimpleCommand, reading: ReadVerdict | None
) -> Iterator[tuple[Word, Reach]]:
    """The directories whose files a command reads, and which files."""
    if name == "git":
        return
    if reading is not None and reading.opens is not None:
        reach: Reach = reading.opens
        for folder in reading.down:
            yield folder, reach
        return
    words = command.words[1:]
    if name not in _TAKES or not any(_TAKES[name][1].fullmatch(word.text) for word in words):
        return
    reach = _TAKES[name][0]
    # Which of the operands are directories is not asked: a file has nothing below it.
    operands = [word for word in words if not word.text.startswith("-")]
    if name == "mv" and not any(_INTO.match(word.text) for word in words):
        operands = operands[:-1]
    here = [Word(".")] if not operands or (name in _SEARCHES and len(operands) == 1) else []
    for word in (*operands, *here):
        yield word, reach


def _from_git(command: SimpleCommand, facts: PathFacts, *, cwds: tuple[str, ...]) -> Iterator[PolicyFinding]:
    """Return the repository files and settings that a git subcommand shows."""
    texts = [word.text for word in command.words]
    at = 1
    while at < len(texts) and texts[at].startswith("-"):
        at += 2 if texts[at] in _GIT_VALUED else 1
    name, rest = texts[at] if at < len(texts) else "", texts[at + 1 :]
    for cwd in cwds:
        if _shows_contents(name, rest):
            yield from _shown_by_git(facts.secret_finder.secret_in_history(cwd))
        if name == "grep" and any(map(_GIT_UNTRACKED.match, rest)):
            yield from _seen(facts.secret_finder.secret_below(cwd, reach="all"))
        if (name == "remote" and rest) or name in _GIT_ADDRESSES:
            yield from _shown_by_git(facts.secret_finder.secret_in_remotes(cwd))


def _seen(what: str, does: str = "read") -> Iterator[PolicyFinding]:
    if what:
        yield PolicyFinding("secret", f"It would {does} {what}.")


def _shown_by_git(what: str) -> Iterator[PolicyFinding]:
    """Git keeps it in files of its own, which a sandbox can't leave out."""
    if what:
        yield PolicyFinding("secret", f"It would read {what}.", escapes=True)


def _shows_contents(name: str, rest: list[str]) -> bool:
    """Whether a subcommand shows what files of the repository hold or held, without naming them."""
    options = [text for text in rest if text.startswith("-")]
    operands = [text for text in rest if not text.startswith("-")]
    is_patch = any(map(_GIT_PATCH.fullmatch, options))
    if name in _GIT_LISTS:
        return is_patch
    if name not in _GIT_CONTENTS:
        return False
    if name in {"show", "cat-file"} and operands and all(":" in text for text in operands):
        return False  # one file of one commit, which is judged by its name
    if name == "cat-file":
        return _GIT_OF_ONE.isdisjoint(options)
    return is_patch or not any(map(_GIT_SUMMARY.fullmatch, options))
