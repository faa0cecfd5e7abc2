"""The first line of an approval: in plain words, what the action does and why it asks.

The findings say everything, in the terms of the checks that made them. This line names every action of a
command, the worst first. It is only ever shown: no verdict depends on it.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Sequence

from holdfast.policy.approval_rules import ActionPart
from holdfast.policy.autorun_files import autorun_in
from holdfast.policy.lifts import describe_lift
from holdfast.policy.path_facts import PathFacts
from holdfast.policy.secret_names import is_secret
from holdfast.policy.shell.programs import NETWORK_SUBCOMMANDS
from holdfast.policy.shell.words import Word, likely_name
from holdfast.policy.tool_names import BROWSER_OPEN, SHELL, tool_kind
from holdfast.policy.verdicts import FindingKind, PolicyFinding
from holdfast.safe_text import ascii_host

COMMAND_CHARS_MAX = 80
HEADLINE_CHARS_MAX = 240
NAMED_MAX = 3

_Part = tuple[ActionPart, Sequence[PolicyFinding]]
_PLAIN = re.compile(r"[\w./@:+~=,%-]+")
_HOST = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/\s@]*@)?(\[[^]\s]+\]|[^/\s:?#]+)", re.IGNORECASE)
_USER_AT = re.compile(r"(?:[\w.-]+@)?([\w-]+(?:\.[\w-]+)*):?.*")
_DOTTED = re.compile(r"[^\s/:@=,]+\.[^\s/:@=,]+")
_SENDS = re.compile(r"-[dFTX].*|--(?:data|form|json|upload|request|post).*", re.DOTALL)
_OTHER_USER = frozenset(("sudo", "doas", "su", "runuser", "pkexec"))
_INTO = frozenset(("cp", "mv", "ln", "install"))
_PAIR = 2
_DOWNLOADS = frozenset(("curl", "wget", "aria2c", "http", "https"))
_REMOTE = frozenset(("ssh", "scp", "sftp", "rsync", "telnet", "nc", "ncat", "ping"))
_CONNECTS = _DOWNLOADS | _REMOTE | {"git", *NETWORK_SUBCOMMANDS}
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "ksh", "fish", "eval", "source", "."))
_INTERPRETERS = frozenset(("python", "pypy", "perl", "ruby", "node", "deno", "php", "lua", "Rscript"))
_DELETES = frozenset(("rm", "rmdir", "unlink", "shred", "srm", "trash"))
_INSTALLS = frozenset(("install", "i", "ci", "add", "update", "upgrade", "up", "sync", "get", "require"))
_RUNS_TEXT = re.compile(r"-[A-Za-z]*[ceEr]|--(?:eval|print|command)(?:=.*)?")
_DOES = {
    "mkdir": "Creates",
    "touch": "Creates",
    "cp": "Copies",
    "mv": "Moves",
    "ln": "Links",
    "chmod": "Changes the permissions of",
    "chown": "Changes the owner of",
    "tee": "Writes",
}
_GIT_DOES = {
    "add": "Adds files to the next commit",
    "commit": "Commits to the git repository",
    "clean": "Deletes files that git doesn't track",
    "reset": "Resets the git repository",
    "rebase": "Rewrites git history",
    "rm": "Deletes files and tells git",
    "stash": "Puts uncommitted work aside",
    "restore": "Discards changes to files",
}


def headline_for(parts: Sequence[_Part], facts: PathFacts) -> str:
    """One line about these parts of an action, the worst first."""
    piped = _download_that_runs(parts)
    # A loop's variable is no news beside what the loop does.
    spoken = [
        each for each in parts if each[0].argv or not {one.kind for one in each[1]} <= {"word", "setting"}
    ]
    left = [each for each in spoken or parts if not piped or not _is_piped(each[0])]
    ranked = sorted(_line(part, found, facts) for part, found in left)
    lines = list(dict.fromkeys(filter(None, (piped, *(line for _, line in ranked)))))
    return _joined(lines or ["Needs your approval"])


def _joined(lines: Sequence[str]) -> str:
    """As many of the lines as fit, and how many more there are."""
    text = lines[0]
    for at, line in enumerate(lines[1:], 1):
        longer = f"{text}; {line[0].lower()}{line[1:]}"
        if len(longer) > HEADLINE_CHARS_MAX:
            return f"{text} (and {len(lines) - at} more)"
        text = longer
    return text


def _line(part: ActionPart, found: Sequence[PolicyFinding], facts: PathFacts) -> tuple[int, str]:
    """The line about one part, and how little it matters."""
    kinds: set[FindingKind] = {finding.kind for finding in found}
    sayings = _OF_SHELL if part.tool == SHELL else _OF_TOOLS
    for rank, say in enumerate(sayings):
        if line := say(part, kinds, facts):
            return rank, line
    return len(sayings), "Needs your approval"


def _download_that_runs(parts: Sequence[_Part]) -> str:
    hosts = [_host(part) for part, _ in parts if _name(part) in _DOWNLOADS]
    runs = any(_is_piped(part) and _name(part) not in _DOWNLOADS for part, _ in parts)
    named = _listed(filter(None, hosts)) or "another machine"
    return f"Downloads and runs code from {named}" if hosts and runs else ""


def _is_piped(part: ActionPart) -> bool:
    """Whether the part downloads a script for another part, or runs one."""
    name = _name(part)
    return name in _DOWNLOADS or (part.fed and name in _SHELLS | _INTERPRETERS)


def _name(part: ActionPart) -> str:
    return likely_name(Word(part.argv[0])) if part.argv else ""


def _host(part: ActionPart) -> str:
    found = next(filter(None, map(_HOST.search, part.argv[1:])), None)
    return _cut(ascii_host(found[1])) if found else ""


def _cut(text: str) -> str:
    return text if len(text) <= COMMAND_CHARS_MAX else f"{text[:COMMAND_CHARS_MAX]}…"


def _command(part: ActionPart) -> str:
    # A word that is expanded is shown as it was written.
    argv = tuple(map(_with_ascii_hosts, part.argv)) if _name(part) in _CONNECTS else part.argv
    return _cut(shlex.join(argv) if part.literal else " ".join(argv)) or "a command that can't be checked"


def _with_ascii_hosts(word: str) -> str:
    """The word of a program that connects, with hosts as DNS sees them; a file name may be rewritten too."""
    return _DOTTED.sub(lambda found: ascii_host(found[0]), word)


def _shown(path: str, facts: PathFacts) -> str:
    """A path as people write it: relative to the workspace if it is inside."""
    root = facts.workspace.rstrip("/") + "/"
    text = "the whole workspace" if path == facts.workspace else path.removeprefix(root)
    return text if path == facts.workspace else _word(text)


def _listed(names: Iterable[str]) -> str:
    known = list(dict.fromkeys(names))
    more = f" and {len(known) - NAMED_MAX} more" if len(known) > NAMED_MAX else ""
    return ", ".join(known[:NAMED_MAX]) + more


def _operands(part: ActionPart, *, first: int = 1) -> str:
    words = [word for word in part.argv[first:] if not word.startswith("-")]
    return _listed(map(_word, words))


def _word(text: str) -> str:
    return _cut(text) if _PLAIN.fullmatch(text) else f"“{_cut(text)}”"


def _first(paths: Iterable[str], fits: Callable[[str], bool]) -> str:
    return next(filter(fits, paths), "")


def _leaves(part: ActionPart, kinds: set[FindingKind], facts: PathFacts) -> str:
    del facts
    if "lift" not in kinds:
        return ""
    if part.lift.everything:
        return f"Runs without the sandbox: {_command(part)}"
    return f"Leaves the sandbox, {_cut(describe_lift(part.lift))}: {_command(part)}"


def _secret(part: ActionPart, kinds: set[FindingKind], facts: PathFacts) -> str:
    if "secret" not in kinds:
        return ""
    path = _first(part.paths, is_secret)
    return f"May show secrets: {_shown(path, facts)}" if path else f"May show secrets: {_command(part)}"


def _autorun(part: ActionPart, kinds: set[FindingKind], facts: PathFacts) -> str:
    path = _first((*part.writes, *part.paths), lambda path: autorun_in(path, facts))
    if "autorun" not in kinds or not path:
        return ""
    return f"Changes a file that other programs run or obey later: {_shown(path, facts)}"


def _outside(part: ActionPart, kinds: set[FindingKind], facts: PathFacts) -> str:
    if not kinds & {"write_outside", "outside", "autorun"}:
        return ""
    path = _first((*part.writes, *part.paths, *part.cwds), lambda path: not facts.inside(path))
    if kinds & {"write_outside", "autorun"} and not path:
        return f"May write files that other programs run later: {_command(part)}"
    if kinds & {"write_outside", "autorun"}:
        return f"Writes outside the workspace: {_shown(path, facts)}"
    does = "Reads" if kinds == {"outside"} else "Uses files"
    return f"{does} outside the workspace: {_shown(path, facts) if path else _command(part)}"


def _elsewhere(part: ActionPart, kinds: set[FindingKind], facts: PathFacts) -> str:
    del kinds, facts
    outer = next((words for words in part.outers if words[0] in _OTHER_USER | {"ssh"}), None)
    if outer is None:
        return ""
    where = "on another machine" if outer[0] == "ssh" else "as another user"
    return f"Runs {where}: {_cut(' '.join(outer))}"


def _deletes(part: ActionPart, kinds: set[FindingKind], facts: PathFacts) -> str:
    del kinds, facts
    name = _name(part)
    if name in _DELETES:
        return f"Deletes {_operands(part) or 'files that are named when it runs'}"
    return f"Deletes what it finds: {_command(part)}" if name == "find" and "-delete" in part.argv else ""


def _runs_code(part: ActionPart, kinds: set[FindingKind], facts: PathFacts) -> str:
    del facts
    name = _name(part)
    if name in _SHELLS | _INTERPRETERS:
        operand = next((word for word in part.argv[1:] if not word.startswith("-")), "")
        if part.argv[1:2] == ("-m",):
            return f"Runs a Python module: {_command(part)}"
        if any(map(_RUNS_TEXT.fullmatch, part.argv[1:])) or not operand:
            return f"Runs code with {name}: {_command(part)}"
        return f"Runs a script: {_cut(operand)}"
    if "wrapper" not in kinds:
        return ""
    return f"Runs a program in a way that Holdfast can't check: {_command(part)}".removesuffix(": ")


def _network(part: ActionPart, kinds: set[FindingKind], facts: PathFacts) -> str:
    del facts
    if "network" not in kinds:
        return ""
    name, sub, host = _name(part), _subcommand(part), _host(part)
    if name in _DOWNLOADS and host:
        sends = any(map(_SENDS.fullmatch, part.argv[1:]))
        return f"Sends data to {host}" if sends else f"Downloads from {host}"
    if name in _REMOTE and not host:
        target = next((word for word in part.argv[1:] if not word.startswith("-")), "")
        found = _USER_AT.fullmatch(target)
        host = found[1] if found else ""
    if name == "git":
        does = "Pushes to" if sub == "push" else "Fetches from"
        return f"{does} another machine: {_command(part)}"
    if name in NETWORK_SUBCOMMANDS and sub in _INSTALLS:
        return f"Installs packages: {_command(part)}"
    return (
        f"Connects to {_cut(ascii_host(host))}" if host else f"Connects to other machines: {_command(part)}"
    )


def _subcommand(part: ActionPart) -> str:
    return next((word for word in part.argv[1:] if not word.startswith("-")), "")


def _repository(part: ActionPart, kinds: set[FindingKind], facts: PathFacts) -> str:
    del facts
    return f"Runs programs that this repository names: {_command(part)}" if "repository" in kinds else ""


def _writes(part: ActionPart, kinds: set[FindingKind], facts: PathFacts) -> str:
    if "write" not in kinds or not part.writes:
        return ""
    return f"Writes {_listed(_shown(path, facts) for path in part.writes)}"


def _changes(part: ActionPart, kinds: set[FindingKind], facts: PathFacts) -> str:
    del facts
    name = _name(part)
    if "change" not in kinds:
        return ""
    if name == "git":
        return _GIT_DOES.get(_subcommand(part)) or f"May change the git repository: {_command(part)}"
    operands = [word for word in part.argv[1:] if not word.startswith("-")]
    if name in _INTO and len(operands) == _PAIR:
        return f"{_DOES.get(name, 'Copies')} {_word(operands[0])} to {_word(operands[1])}"
    if name in {"chmod", "chown"}:
        return f"{_DOES[name]} {_operands(part, first=2) or _command(part)}"
    if name in _DOES and operands:
        return f"{_DOES[name]} {_operands(part)}"
    return f"Runs a program that's not on your list: {_cut(part.argv[0])}"


def _unclear(part: ActionPart, kinds: set[FindingKind], facts: PathFacts) -> str:
    del facts
    if "syntax" in kinds:
        return "Uses shell syntax that Holdfast can't check"
    if "word" in kinds:
        return f"Uses text that is known only when it runs: {_command(part)}" if part.argv else ""
    return f"One of your rules asks about it: {_command(part) or part.tool}" if "rule" in kinds else ""


def _sets(part: ActionPart, kinds: set[FindingKind], facts: PathFacts) -> str:
    del facts
    names = _listed(setting.partition("=")[0] for setting in part.settings)
    return f"Sets a variable that programs may obey: {names}" if kinds & {"setting", "word"} else ""


def _of_tool(part: ActionPart, kinds: set[FindingKind], facts: PathFacts) -> str:
    """A call of a tool other than the shell."""
    match tool_kind(part.tool):
        case "fetch":
            verb = "Opens" if part.tool == BROWSER_OPEN else "Fetches"
            return f"{verb} a page from {_cut(part.host) or 'an unnamed host'}"
        case "submit":
            return f"Sends a form to {_cut(part.host) or 'an unnamed host'}"
        case "write":
            return f"Writes {_listed(_shown(path, facts) for path in part.paths)}"
        case "later":
            return "Schedules a run of an agent"
        case None:
            return f"Uses a tool that Holdfast knows nothing about: {_cut(part.tool)}"
        case _:
            return _unclear(part, kinds, facts)


_OF_SHELL = (
    _leaves,
    _elsewhere,
    _secret,
    _autorun,
    _outside,
    _deletes,
    _runs_code,
    _network,
    _repository,
    _writes,
    _changes,
    _unclear,
    _sets,
)
_OF_TOOLS = (_secret, _autorun, _outside, _of_tool)
