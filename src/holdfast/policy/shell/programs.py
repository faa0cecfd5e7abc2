"""Effects of known programs beyond reading and writing the files that they are given.

None of this makes a command safe: these are the reasons to ask even when workspace programs are
trusted. The mode "workspace" trusts a program that is in none of the tables.
"""

import re
from collections.abc import Iterator

from holdfast.policy.shell.read_only_programs import only_prints
from holdfast.policy.shell.words import Word, likely_name
from holdfast.policy.verdicts import FindingKind, PolicyFinding

# fmt: off
_NETWORK = frozenset((
    "curl", "wget", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "netcat", "socat", "telnet", "ftp", "tftp",
    "ping", "dig", "host", "nslookup", "whois", "traceroute", "nmap", "aria2c", "http", "https", "lynx",
    "npx", "uvx", "pipx", "bunx", "docker", "podman", "kubectl", "helm", "terraform", "ansible", "vagrant",
    "aws", "gcloud", "az", "gh", "glab", "heroku", "vercel", "svn", "hg", "http.server", "mail", "sendmail",
    "apt", "apt-get", "dnf", "yum", "apk", "pacman", "zypper", "brew", "port", "snap", "flatpak", "gem",
    "openssl", "ssh-copy-id", "ngrok", "rclone", "git-lfs", "smbclient", "chromium", "firefox",
))
NETWORK_SUBCOMMANDS: dict[str, frozenset[str]] = {
    "pip": frozenset(("install", "download", "wheel", "index", "search", "uninstall")),
    "uv": frozenset(("pip", "add", "sync", "run", "tool", "lock", "remove", "python", "publish", "self")),
    "poetry": frozenset(("install", "add", "update", "lock", "publish", "remove", "self")),
    "pdm": frozenset(("install", "add", "update", "lock", "publish", "remove", "sync", "self")),
    "pipenv": frozenset(("install", "update", "lock", "sync", "uninstall")),
    "conda": frozenset(("install", "create", "update", "remove", "env", "run")),
    "mamba": frozenset(("install", "create", "update", "remove", "env", "run")),
    "npm": frozenset((
        "install", "i", "ci", "add", "update", "up", "upgrade", "publish", "exec", "x", "audit", "outdated",
        "view", "search", "login", "create", "init", "uninstall", "link", "dedupe", "rebuild",
    )),
    "pnpm": frozenset(("install", "i", "add", "update", "up", "publish", "dlx", "exec", "create", "remove")),
    "yarn": frozenset(("install", "add", "up", "upgrade", "publish", "dlx", "create", "remove", "npm")),
    "bun": frozenset(("install", "i", "add", "update", "publish", "x", "create", "remove", "upgrade")),
    "cargo": frozenset(("install", "add", "publish", "update", "fetch", "search", "login", "uninstall")),
    "go": frozenset(("get", "install", "mod", "work")),
    "bundle": frozenset(("install", "update", "add")),
    "composer": frozenset(("install", "update", "require")),
    "git": frozenset((
        "push", "pull", "fetch", "clone", "ls-remote", "submodule", "remote", "send-email", "daemon", "svn",
        "p4", "lfs", "archive", "fetch-pack", "send-pack", "http-fetch", "http-push", "imap-send",
    )),
}
_MACHINE = frozenset((
    "kill", "pkill", "killall", "systemctl", "service", "crontab", "at", "batch", "shutdown", "reboot",
    "halt", "poweroff", "init", "telinit", "mount", "umount", "useradd", "userdel", "usermod", "passwd",
    "chpasswd", "groupadd", "visudo", "iptables", "nft", "ufw", "sysctl", "modprobe", "insmod", "rmmod",
    "launchctl", "defaults", "osascript", "open", "xdg-open", "loginctl", "swapoff", "swapon", "fdisk",
    "parted", "chsh", "hostname", "hostnamectl", "timedatectl", "setfacl", "setcap", "update-alternatives",
    "dpkg", "rpm",
))
_STARTS_OTHERS = frozenset((
    "vi", "vim", "nvim", "view", "ex", "ed", "emacs", "nano", "pico", "less", "more", "most", "man", "info",
    "gdb", "lldb", "tmux", "screen", "expect", "entr", "perf", "ltrace", "valgrind", "fakeroot", "proot",
    "firejail", "bwrap", "capsh", "gosu", "setpriv", "prlimit", "run-parts", "start-stop-daemon", "dbus-send",
    "ld.so", "tclsh", "ghci", "irb", "pry", "ipython", "R", "octave", "julia", "scala",
))
_SHELL_STATE = frozenset((
    "source", ".", "alias", "unalias", "enable", "hash", "complete", "compgen", "compopt", "bind", "let",
    "declare", "typeset", "local", "readonly", "export", "unset", "read", "mapfile", "readarray", "getopts",
    "set", "shopt", "exec", "fc", "history", "ulimit", "umask", "wait", "jobs", "bg", "fg", "disown",
    "suspend", "caller", "shift", "return", "pushd", "popd", "dirs", "logout", "times", "help", "test", "[",
    "printf", "cd", "noglob", "autoload", "zmodload",
))
_SHOWS_ENVIRONMENT = frozenset(("env", "printenv", "ps", "top", "htop", "lsof"))
# The letters of one-dash options that carry a program, and the long options that do; any abbreviation counts.
_CODE_LETTERS = {
    "python": "c", "pypy": "c", "perl": "eE", "ruby": "e", "node": "ep", "deno": "e", "php": "rBRE",
    "lua": "e", "Rscript": "e", "tar": "IF", "zip": "T", "make": "E",
}
_CODE_OPTIONS = {
    "node": ("--eval", "--print", "--require", "--import"),
    "tar": ("--checkpoint-action", "--to-command", "--use-compress-program", "--info-script",
            "--new-volume-script", "--rsh-command", "--rmt-command", "--absolute-names"),
    "rg": ("--pre", "--hostname-bin"),
    "sort": ("--compress-program",),
    "zip": ("--unzip-command",),
    "make": ("--eval",),
    "split": ("--filter",),
    "deno": ("--eval",),
}
_READS_PROGRAM = frozenset(("python", "pypy", "perl", "ruby", "node", "php", "lua", "deno"))
_GIT_RUNS = frozenset((
    "config", "bisect", "filter-branch", "difftool", "mergetool", "hook", "instaweb", "gui", "citool",
    "maintenance", "credential", "for-each-repo", "rebase--interactive", "fast-import", "replay",
))
_GIT_OPTIONS = ("--exec", "--upload-pack", "--receive-pack", "--open-files-in-pager", "--template")
_GIT_VALUED = frozenset(("-C", "--git-dir", "--work-tree", "--namespace"))
_GIT_PLAIN = frozenset(("--no-pager", "-P", "-p", "--paginate", "--no-optional-locks", "--bare", "--version"))
# fmt: on
_JUST_TELLS = frozenset(("--version", "-V", "--help", "-h"))
_ABBREVIATION_CHARS_MIN = 4
# The first letter of a word with options that takes the rest of the word for its value, or the next word.
_PYTHON_VALUED = re.compile(r"-[^-mcXW]*([mcXW])(.*)", re.DOTALL)
_PYTHON_STEPPED_OVER = frozenset(("X", "W", "--check-hash-based-pycs"))
_KINDS: tuple[tuple[FindingKind, frozenset[str], str], ...] = (
    ("network", _NETWORK, "reaches other machines"),
    ("program", _MACHINE, "acts on the machine, not on workspace files"),
    ("program", _STARTS_OTHERS, "can start any other program"),
    ("program", _SHELL_STATE, "changes what the shell does next"),
    ("program", _SHOWS_ENVIRONMENT, "shows environment variables, which may hold secrets"),
)


def concerns(words: tuple[Word, ...]) -> Iterator[PolicyFinding]:
    """Reasons to ask about a program with these words, whatever files they name."""
    name = likely_name(words[0])
    if module := _module(name, words):
        yield from concerns(module)
        return
    for kind, names, what in _KINDS:
        if name in names:
            yield PolicyFinding(kind, f"`{name}` {what}.")
    yield from _networked(name, words)
    yield from _programs_in_words(name, words)
    if name == "git":
        yield from _git(words)


def _module(name: str, words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words after python -m, beginning with the module; empty if -m does not come first."""
    at = 1
    while name in {"python", "pypy"} and at < len(words) and words[at].text[:1] == "-":
        found = _PYTHON_VALUED.fullmatch(words[at].text)
        option, value = (found[1], found[2]) if found else (words[at].text, "")
        if option == "m":
            return (Word(value), *words[at + 1 :]) if value else words[at + 1 :]
        if option in {"c", "-", "--"}:
            break
        at += 2 if option in _PYTHON_STEPPED_OVER and not value else 1
    return ()


def _networked(name: str, words: tuple[Word, ...]) -> Iterator[PolicyFinding]:
    """Subcommands that fetch or send."""
    if name == "git" or name not in NETWORK_SUBCOMMANDS:
        return
    found = [word.text for word in words[1:] if word.text in NETWORK_SUBCOMMANDS[name]]
    if found or (name == "yarn" and len(words) == 1):
        yield PolicyFinding("network", f"`{name} {''.join(found[:1])}` reaches other machines.")


def _programs_in_words(name: str, words: tuple[Word, ...]) -> Iterator[PolicyFinding]:
    """Code that is given as an argument, or that comes from the input."""
    texts = [word.text for word in words[1:]]
    for text in texts:
        if _carries_code(name, text):
            yield PolicyFinding("program", f"`{name} {text}` runs code from the command line.")
    if name in _READS_PROGRAM and not any(text[:1] != "-" or text in _JUST_TELLS for text in texts):
        yield PolicyFinding("wrapper", f"`{name}` runs whatever it reads from its input.")
    if name in {"awk", "gawk", "mawk", "nawk"} and not _plain_script("awk", texts):
        yield PolicyFinding("program", "The awk program may do more than print.")
    if name in {"sed", "gsed"} and not _plain_script("sed", texts):
        yield PolicyFinding("program", "The sed program may do more than print and replace.")
    if name == "tar" and texts and re.fullmatch(r"-?[A-Za-z]*P[A-Za-z]*", texts[0]):
        yield PolicyFinding("program", "`tar` is told to keep absolute paths.")


def _carries_code(name: str, text: str) -> bool:
    """Whether an option takes a program as its value, in full or abbreviated."""
    if text.startswith("--"):
        option = text.partition("=")[0]
        return len(option) >= _ABBREVIATION_CHARS_MIN and any(
            full.startswith(option) for full in _CODE_OPTIONS.get(name, ())
        )
    letters = _CODE_LETTERS.get(name, "")
    return text.startswith("-") and any(letter in letters for letter in text[1:])


def _plain_script(name: str, texts: list[str]) -> bool:
    """Whether the script of awk or sed is visible and harmless."""
    options = [text for text in texts if text.startswith("-") and text != "-"]
    known = {"-i", "-n", "-E", "-r", "-e", "-s", "-u", "-z", "-nE", "-i.bak", "-ni", "-nr"}
    if any(option not in known and not (name == "awk" and option.startswith("-F")) for option in options):
        return False
    scripts = [text for text in texts if not text.startswith("-")]
    return bool(scripts) and only_prints(name, scripts[0])


def _git(words: tuple[Word, ...]) -> Iterator[PolicyFinding]:
    """Return the programs that git runs, and its access outside the repository."""
    at = 1
    while at < len(words) and words[at].text.startswith("-"):
        option = words[at].text.partition("=")[0]
        if option not in _GIT_VALUED | _GIT_PLAIN:
            yield PolicyFinding("program", f"`git {words[at].text}` changes what git runs.")
        at += 2 if words[at].text in _GIT_VALUED or option in {"-c", "--config-env"} else 1
    name = words[at].text if at < len(words) else ""
    if name in NETWORK_SUBCOMMANDS["git"]:
        yield PolicyFinding("network", f"`git {name}` reaches other machines.")
    if name in _GIT_RUNS:
        yield PolicyFinding("program", f"`git {name}` changes or runs other programs.")
    for word in words[at + 1 :]:
        option = word.text.partition("=")[0]
        long = len(option) >= _ABBREVIATION_CHARS_MIN and any(
            full.startswith(option) for full in _GIT_OPTIONS
        )
        short = (name == "rebase" and option[:2] == "-x") or (name == "grep" and option[:2] == "-O")
        if long or short:
            yield PolicyFinding("program", f"`git {name} {word.text}` runs another program.")
