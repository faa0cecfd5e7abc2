"""Recognizes commands that only read, with `reading_of`. Git, find, awk and sed need more than a table."""

import re
from collections.abc import Callable

from holdfast.policy.shell.option_tables import ALWAYS, READERS, ProgramUsage, ReadVerdict, read_with, usage
from holdfast.policy.shell.words import Word

_DIFF = (
    "-pRuwbzM --stat --shortstat --numstat --summary --name-only --name-status --cached --staged --patch "
    "--no-patch --color --no-color --color-words --word-diff --no-ext-diff --no-textconv --minimal "
    "--ignore-all-space --ignore-space-change --ignore-blank-lines --raw --no-renames --find-renames --check "
    "--exit-code --quiet --unified --merge-base --full-index --compact-summary --dirstat --relative"
)
_DIFF_VALUED = "-UG --diff-filter --inter-hunk-context --word-diff-regex"
_LOG = (
    f"{_DIFF} --oneline --graph --decorate --all --branches --tags --remotes --follow --no-merges --merges "
    "--reverse --abbrev-commit --first-parent --no-decorate --left-right --cherry-pick --no-abbrev-commit "
    "--format --pretty --abbrev"
)
_LOG_VALUED = (
    f"{_DIFF_VALUED} -nSL --max-count --skip --since --after --until --before --author --committer --grep "
    "--date"
)
GIT_READERS: dict[str, ProgramUsage] = {
    "status": usage("-sbuvz --short --branch --porcelain --long --untracked-files --ignored --show-stash"),
    "diff": usage(_DIFF, _DIFF_VALUED),
    "log": usage(_LOG, _LOG_VALUED, numbers=True),
    "show": usage(_LOG, _LOG_VALUED, numbers=True),
    "shortlog": usage("-sne --summary --numbered --email --all", "--since --until", numbers=True),
    "blame": usage("-wMCse --line-porcelain --porcelain --show-email", "-L --since --date"),
    "branch": usage(
        "-arv --all --remotes --list --verbose --show-current --no-color",
        "--sort --format --contains --merged --no-merged --points-at",
        listing="--list",
    ),
    "tag": usage("-l --list", "-n --sort --format --contains --merged --points-at", listing="-l --list"),
    "rev-parse": usage(
        "--abbrev-ref --short --show-toplevel --git-dir --is-inside-work-tree --verify --quiet --symbolic "
        "--show-prefix --show-cdup --absolute-git-dir --git-common-dir"
    ),
    "rev-list": usage("--all --count --reverse --no-merges", "-n --max-count --since --until", numbers=True),
    "ls-files": usage(
        "-cdmosktuvz --cached --deleted --modified --others --stage --exclude-standard --full-name "
        "--error-unmatch --unmerged --killed",
        "-x --exclude",
    ),
    "ls-tree": usage("-drtlz --name-only --name-status --full-name --full-tree --long"),
    "cat-file": usage("-pste"),
    "describe": usage("--tags --all --always --long --dirty", "--abbrev --match"),
    "merge-base": usage("-a --all --is-ancestor"),
    "grep": usage(
        "-EFGPHIacilnqvwhz --cached --count --files-with-matches --heading --ignore-case --line-number "
        "--name-only --word-regexp --break --show-function --untracked",
        "-ABCem --max-depth --max-count",
        operands="pattern",
        down=ALWAYS,
    ),
    "remote": usage("-v --verbose", operands="none"),
    "stash list": usage(operands="none"),
    "stash show": usage(_DIFF, _DIFF_VALUED),
    "worktree list": usage("--porcelain", operands="none"),
    "reflog": usage(operands="none"),
}
_GIT_GLOBAL = frozenset(
    ("--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-replace-objects")
)
# These print their version before they look at any file or setting. Others (cargo, go, npm, pytest) first
# read files of the workspace, which can name another program to run.
_VERSIONS: dict[str, tuple[str, ...]] = {
    "git": ("--version",),
    "python": ("--version", "-V"),
    "node": ("--version", "-v"),
    "make": ("--version",),
    "gcc": ("--version",),
    "ruff": ("--version", "-V"),
    "jq": ("--version",),
    "rg": ("--version",),
}
_ASKS_VERSION = 2  # the program and the option
# Settings that say how git behaves or who commits. Others may hold tokens.
_GIT_OPEN_SETTINGS = re.compile(
    r"user\.(?:name|email)|init\.defaultbranch|core\.(?:editor|autocrlf|filemode|ignorecase|bare|eol|pager)"
    r"|branch\.[\w./-]+\.(?:remote|merge|rebase)|remote\.[\w-]+\.(?:url|pushurl|fetch)"
    r"|pull\.(?:rebase|ff)|push\.default|commit\.gpgsign|merge\.ff|rebase\.autostash",
    re.IGNORECASE,
)
_GIT_TWO_WORDS = frozenset(("stash", "worktree"))
# fmt: off
_FIND_PLAIN = frozenset((
    "-print", "-print0", "-not", "!", "-o", "-a", "-or", "-and", "(", ")", ",", "-empty", "-prune", "-ls",
    "-readable", "-writable", "-executable", "-xdev", "-mount", "-depth", "-daystart", "-true", "-false",
    "-nouser", "-nogroup", "-quit", "-noleaf", "-ignore_readdir_race",
))
_FIND_VALUED = frozenset((
    "-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-regextype",
    "-type", "-xtype", "-maxdepth", "-mindepth", "-size", "-mtime", "-mmin", "-ctime", "-cmin", "-atime",
    "-amin", "-perm", "-user", "-group", "-uid", "-gid", "-links", "-inum", "-printf", "-lname", "-ilname",
    "-newermt",
))
_FIND_PATHS = frozenset(("-newer", "-anewer", "-cnewer", "-samefile"))
_TEST_UNARY = frozenset(("-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h", "-n", "-z", "-p", "-S"))
_TEST_BINARY = frozenset(("=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"))
# fmt: on
# Without pipes, redirections, indirect calls and these names, an awk program can only print what it reads.
_AWK_MORE = re.compile(
    r"[|<>@]|\b(?:system|getline|close|fflush|ENVIRON|ARGV|ARGC|ARGIND|SYMTAB|FUNCTAB|PROCINFO|include|load)\b"
)
_SED_TEXT = r"(?:[^/\\\n]|\\[^\n])*"
# Within brackets a slash ends nothing, so these must be seen to end before one.
_SED_CLASS = r"\[(?!\^?\])(?:[^]/\\\n\[]|\\[^]/\\\n\[]|\[:[a-z]+:\])+\]"
_SED_PATTERN = rf"(?:[^/\\\n\[]|\\[^\n]|{_SED_CLASS})*"
_SED_PLACE = rf"(?:\d+|\$|/{_SED_PATTERN}/)"
_SED_COMMAND = (
    rf"(?:{_SED_PLACE}(?:,(?:{_SED_PLACE}|\+\d+))?)?!?(?:[pdq=]|s/{_SED_PATTERN}/{_SED_TEXT}/[gpiI0-9]*)"
)
_SED_SCRIPT = re.compile(_SED_COMMAND)
_PRINTF_SETS = re.compile(r"%[-+ #0-9'*.]*[hlLjtz]*n")
_STRICT = re.compile(r"-[eux]+|-[eux]*o")


def reading_of(name: str, words: tuple[Word, ...]) -> ReadVerdict:
    """Return the files that a command would read; `problem` says why it may do more."""
    if len(words) == _ASKS_VERSION and words[1].text in _VERSIONS.get(name, ()):
        return ReadVerdict()
    if special := _SPECIAL.get(name):
        return special(words)
    if name in READERS:
        return read_with(READERS[name], words)
    return ReadVerdict(f"`{words[0].text}` can change files.")


def only_prints(name: str, script: str) -> bool:
    """Whether an awk or sed script does nothing but print."""
    if name == "sed":
        parts = [part.strip() for part in script.split(";")]
        return all(_SED_SCRIPT.fullmatch(part) for part in parts)
    return not _AWK_MORE.search(script)


def git_subcommand(words: tuple[Word, ...]) -> int | None:
    """The position of git's subcommand, or None if an option before it may do more than read."""
    at = 1
    while at < len(words) and words[at].text in _GIT_GLOBAL:
        at += 1
    return at if at < len(words) and not words[at].text.startswith("-") else None


def _git(words: tuple[Word, ...]) -> ReadVerdict:
    """Git reads settings from its repository, so it is trusted only in the workspace."""
    at = git_subcommand(words)
    if at is None:
        return ReadVerdict("An option of `git` may do more than read.")
    name = words[at].text
    if name in _GIT_TWO_WORDS and at + 1 < len(words):
        at += 1
        name = f"{name} {words[at].text}"
    if name == "config":
        return _git_config([word.text for word in words[at + 1 :]])
    if name not in GIT_READERS:
        return ReadVerdict(f"`git {name}` can change files.")
    reading = read_with(GIT_READERS[name], (Word(f"git {name}"), *words[at + 1 :]))
    reading.from_root_only = True
    return reading


def _git_config(words: list[str]) -> ReadVerdict:
    """One setting that anybody may see; addresses of remotes are checked for passwords elsewhere."""
    match words:
        case ["--get", key] if _GIT_OPEN_SETTINGS.fullmatch(key):
            return ReadVerdict(from_root_only=True)
        case _:
            return ReadVerdict("`git config` can change settings, or show ones that hold passwords.")


def _find(words: tuple[Word, ...]) -> ReadVerdict:
    """Find begins at its paths; each word of its expression must be known."""
    reading = ReadVerdict()
    at = 1
    while at < len(words) and (words[at].text in {"-H", "-P"} or words[at].text[:1] not in {"-", "!", "("}):
        if not words[at].text.startswith("-"):
            reading.paths.append(words[at])
        at += 1
    reading.down = [*reading.paths] or [Word(".")]
    while at < len(words):
        text = words[at].text
        if text in _FIND_VALUED | _FIND_PATHS:
            reading.paths += words[at + 1 : at + 2] if text in _FIND_PATHS else ()
            at += 1
        elif text not in _FIND_PLAIN:
            reading.problem = f"`find {text}` may do more than read."
        at += 1
    return reading


def _test(words: tuple[Word, ...]) -> ReadVerdict:
    """A test of at most one condition; a longer one is ambiguous."""
    inner = [word for word in words[1:] if word.text != "!"]
    if words[0].text == "[" and (not inner or inner.pop().text != "]"):
        return ReadVerdict("A test has no closing bracket.")
    texts = [word.text for word in inner]
    match texts:
        case [] | [_]:
            return ReadVerdict()
        case [operator, _] if operator in _TEST_UNARY:
            return ReadVerdict(paths=inner[1:])
        case [_, operator, _] if operator in _TEST_BINARY:
            return ReadVerdict()
        case _:
            return ReadVerdict("The test is too complex to check.")


def _awk(words: tuple[Word, ...]) -> ReadVerdict:
    """The script and the files; only the separator may be set."""
    at = 1
    while at < len(words) and words[at].text.startswith("-F"):
        at += 2 if words[at].text == "-F" else 1
    if at >= len(words) or words[at].text.startswith("-") or not only_prints("awk", words[at].text):
        return ReadVerdict("The awk program may do more than print.")
    files = list(words[at + 1 :])
    if any(word.text.startswith("-") for word in files):
        return ReadVerdict("An option of `awk` follows its program.")
    return ReadVerdict(paths=files)


def _sed(words: tuple[Word, ...]) -> ReadVerdict:
    """The script and the files; -i is not among the options."""
    at = 1
    while at < len(words) and words[at].text in {"-n", "-E", "-r", "-nE", "-En", "-nr", "-s", "-u", "-z"}:
        at += 1
    if at < len(words) and words[at].text == "-e":
        at += 1
    if at >= len(words) or words[at].text.startswith("-") or not only_prints("sed", words[at].text):
        return ReadVerdict("The sed program may do more than print.")
    files = list(words[at + 1 :])
    if any(word.text.startswith("-") for word in files):
        return ReadVerdict("An option of `sed` follows its program.")
    return ReadVerdict(paths=files)


def _printf(words: tuple[Word, ...]) -> ReadVerdict:
    """A text; the conversion %n of bash sets the variable that an argument names, PATH for one."""
    reading = read_with(READERS["printf"], words)
    operands = [word.text for word in words[1:] if word.text != "--"]
    if operands and _PRINTF_SETS.search(operands[0].replace("%%", "")):
        reading.problem = "`printf` may set a variable."
    return reading


def _set(words: tuple[Word, ...]) -> ReadVerdict:
    """The strict modes, which make a script stop earlier."""
    options = [word.text for word in words[1:]]
    known = all(_STRICT.fullmatch(option) or option == "pipefail" for option in options)
    return (
        ReadVerdict() if options and known else ReadVerdict("`set` changes or shows the state of the shell.")
    )


def _cd(words: tuple[Word, ...]) -> ReadVerdict:
    """A change of directory reads its target."""
    operands = [word for word in words[1:] if word.text not in {"--", "-P", "-L"}]
    if len(operands) != 1 or operands[0].text.startswith("-") or not operands[0].text:
        return ReadVerdict("`cd` does not name its directory.")
    return ReadVerdict(paths=operands)


def _date(words: tuple[Word, ...]) -> ReadVerdict:
    """Shows the date; an operand that is not a format sets the clock."""
    reading = read_with(READERS["date"], words)
    if any(word.text[:1] not in {"-", "+"} for word in words[1:]):
        reading.problem = "`date` may set the clock."
    return reading


_SPECIAL: dict[str, Callable[[tuple[Word, ...]], ReadVerdict]] = {
    "git": _git,
    "find": _find,
    "test": _test,
    "[": _test,
    "awk": _awk,
    "gawk": _awk,
    "mawk": _awk,
    "sed": _sed,
    "printf": _printf,
    "set": _set,
    "cd": _cd,
    "date": _date,
}
