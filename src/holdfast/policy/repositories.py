"""Programs and files that a repository's settings and hooks make git use, and the commands that do so.

The person who opened a repository need not have written its `.git` folder. A setting of the user's own files
(`~/.gitconfig`) is the user's choice and is not checked here.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from holdfast.policy.git_config import Setting
from holdfast.policy.verdicts import PolicyFinding

VALUE_CHARS_MAX = 200
NAMED_MAX = 10


class NamedFile(Struct, frozen=True):
    """A setting that makes git read a file that needs approval."""

    setting: Setting
    what: str  # such as "a file outside the workspace"


class Repository(Struct, frozen=True):
    """Settings and hooks that git would obey in one directory, and unreadable files."""

    settings: tuple[Setting, ...] = ()
    hooks: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()  # sentences, each a reason to ask about any git command
    files: tuple[NamedFile, ...] = ()


def no_repository(_directory: str, _git_dir: str) -> Repository:
    """A directory without settings; for judging without looking at files."""
    return Repository()


# fmt: off
# Names of settings that stand for a program in whatever section: some git of today or tomorrow runs them.
_PROGRAM_NAMES = frozenset((
    "command", "cmd", "program", "helper", "driver", "editor", "hookspath", "sshcommand", "gitproxy",
    "askpass", "uploadpack", "receivepack", "vcs", "process", "clean", "smudge", "textconv", "external",
    "fsmonitor", "difffilter", "packobjectshook", "alternaterefscommand", "recentobjectshook",
    "defaultkeycommand", "templatedir", "browser", "tunnel", "smtpserver", "sendmailcmd", "tocmd", "cccmd",
    "headercmd",
))
_PROGRAM_ENDINGS = ("command", "-cmd", "hook", "program")
_PATH_SECTIONS = frozenset(("mergetool", "difftool", "guitool", "browser", "man", "lfs"))
# Run by commands that only read: the working tree is compared, contents are shown, signatures are checked.
_WHILE_READING = frozenset((
    ("core", "fsmonitor"), ("diff", "external"), ("diff", "command"), ("diff", "textconv"),
    ("filter", "clean"), ("filter", "smudge"), ("filter", "process"), ("gpg", "program"),
    ("gpg", "defaultkeycommand"), ("hook", "command"),
))
# Of these sections nothing else is heeded while reading. Any other may be that of a filter which the user has
# installed (`lfs`, `annex`), and those take programs from the repository too.
_NOT_WHILE_READING = frozenset((
    "core", "add", "browser", "commit", "difftool", "gc", "gui", "guitool", "help", "imap", "init",
    "instaweb", "interactive", "man", "merge", "mergetool", "pack", "rebase", "receive", "remote",
    "sendemail", "sequence", "submodule", "tar", "trailer", "uploadpack", "web",
))
_TRANSPORT_NAMES = frozenset((
    "sshcommand", "gitproxy", "askpass", "uploadpack", "receivepack", "vcs", "helper",
    "alternaterefscommand",
))
_TRANSPORT_KEYS = frozenset((("protocol", "allow"), ("url", "insteadof"), ("url", "pushinsteadof")))
# Names of settings that stand for a file to read, besides those that end in "file".
_FILE_NAMES = frozenset((
    "skiplist", "sslcert", "sslkey", "sslcainfo", "sslcapath", "proxysslcert", "proxysslkey",
    "proxysslcainfo", "pinnedpubkey", "smtpsslcertpath",
))
_FILE_KEYS = frozenset((("commit", "template"),))
_FILES_OF_TRANSPORT = frozenset(("http", "imap", "sendemail"))
_HOOK_WHILE_READING = "post-index-change"  # `git status` and `git diff` store what they found out
_HOOKS_OF_ALL = frozenset((_HOOK_WHILE_READING, "reference-transaction"))
# These change files or the index, and run no other hook.
_QUIET = frozenset(("add", "rm", "mv", "restore", "reset", "stash", "tag", "branch", "apply", "init"))
# fmt: on


def named_programs(
    repository: Repository, *, subcommand: str, reads: bool, network: bool
) -> Iterator[PolicyFinding]:
    """Reasons to ask about a git command because of where it runs."""
    for doubt in repository.doubts:
        yield PolicyFinding("repository", doubt)
    partial = any(_is_partial(setting) for setting in repository.settings)
    found: list[str] = []
    for setting in repository.settings:
        if _is_partial(setting):
            found.append(f"This repository is a partial clone, so git may fetch: {_shown(setting)}.")
        elif _runs(setting, subcommand=subcommand, reads=reads, network=network or partial):
            found.append(f"This repository's configuration names a program: {_shown(setting)}.")
    found += (
        f"This repository's configuration names {named.what}: {_shown(named.setting)}."
        for named in repository.files
        if _reads_file(named.setting, reads=reads, network=network or partial)
    )
    hooks = [name for name in repository.hooks if _runs_hook(name, subcommand=subcommand, reads=reads)]
    if hooks:
        found.append(f"This repository has hooks that git may run: {', '.join(hooks[:NAMED_MAX])}.")
    sentences = list(dict.fromkeys(found))
    yield from (PolicyFinding("repository", sentence) for sentence in sentences[:NAMED_MAX])
    if len(sentences) > NAMED_MAX:
        yield PolicyFinding("repository", f"It names {len(sentences) - NAMED_MAX} more.")


def names_file(setting: Setting) -> bool:
    """Whether the value of a setting is a file that git would read."""
    named = setting.name.endswith("file") or setting.name in _FILE_NAMES
    return bool(setting.value) and (named or (setting.section, setting.name) in _FILE_KEYS)


def _reads_file(setting: Setting, *, reads: bool, network: bool) -> bool:
    """Whether this git command may read the file that the setting names."""
    if setting.section in _FILES_OF_TRANSPORT:
        return network
    return not (reads and setting.section == "commit")


def _runs(setting: Setting, *, subcommand: str, reads: bool, network: bool) -> bool:
    """Whether this git command may run what the setting names."""
    key = (setting.section, setting.name)
    if setting.section == "alias":
        name = setting.part if setting.part and setting.name == "command" else setting.name
        return name.lower() == subcommand.lower()
    if key == ("core", "fsmonitor") and setting.boolean is not None:
        return False  # git's own watcher
    if setting.name == "hookspath" and setting.value in {"/dev/null", "NUL"}:
        return False
    if key in _WHILE_READING:
        return True
    if setting.name in _TRANSPORT_NAMES or key in _TRANSPORT_KEYS:
        return network
    heeded = not reads or setting.section not in _NOT_WHILE_READING
    return heeded and _names_program(setting)


def _names_program(setting: Setting) -> bool:
    shell = (setting.value or "").startswith("!")
    path = setting.name == "path" and setting.section in _PATH_SECTIONS
    named = setting.name in _PROGRAM_NAMES or setting.name.endswith(_PROGRAM_ENDINGS)
    return shell or path or named


def _is_partial(setting: Setting) -> bool:
    if (setting.section, setting.name) == ("extensions", "partialclone"):
        return True
    promisor = setting.section == "remote" and setting.name in {"promisor", "partialclonefilter"}
    return promisor and setting.boolean is not False


def _runs_hook(name: str, *, subcommand: str, reads: bool) -> bool:
    if reads:
        return name == _HOOK_WHILE_READING
    return subcommand not in _QUIET or name in _HOOKS_OF_ALL


def _shown(setting: Setting) -> str:
    value = re.sub(r"\s+", " ", setting.value or "")
    cut = f"{value[:VALUE_CHARS_MAX]}…" if len(value) > VALUE_CHARS_MAX else value
    return f"{setting.key} = {cut}" if setting.value is not None else setting.key
