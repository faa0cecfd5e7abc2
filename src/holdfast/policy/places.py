"""Where things lie: inside the workspace or not, secret, Holdfast's own, or too dear to lose."""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from holdfast.policy.shell_words import GLOB, Word

PIECES_MAX = 16
HARMLESS_DEVICES = frozenset(("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"))

_SECRET_PARTS = frozenset((".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", "keyrings"))
_SECRET_TREES = ("/.config/gh/", "/.config/gcloud/", "/.docker/config.json/")
# fmt: off
_SECRET_NAMES = frozenset((
    ".netrc", "_netrc", ".pgpass", ".npmrc", ".pypirc", ".git-credentials", ".htpasswd", ".envrc",
    "credentials", "credentials.json", ".bash_history", ".zsh_history", ".python_history", "id_rsa",
    "id_ed25519", "id_ecdsa", "id_dsa",
))
_SYSTEM_TREES = frozenset((
    "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/root", "/sbin", "/sys", "/usr",
    "/var", "/Applications", "/Library", "/System", "/Users",
))
# fmt: on
_SECRET_ENDINGS = (".pem", ".key", ".p12", ".pfx", ".kdbx", ".keystore", ".jks")
_EXAMPLES = (".example", ".sample", ".template", ".dist")
_DISK = re.compile(r"/dev/(?:r?disk|sd|hd|vd|xvd|nvme|mmcblk|md|dm-|mapper/|loop|nbd|zd|sr|ram)\w*.*")
_ALL_OF_IT = re.compile(r"[.*?]*\*[.*?]*")
_HOME = re.compile(r"(?:~|\$HOME)(?=/|$)")
_PIECES = re.compile(r"[=:,@]")


@dataclass(frozen=True, slots=True)
class Places:
    """The world of an action; all paths are absolute and free of links.

    `resolve` follows the links of an absolute path; it must return an absolute path and never raise.
    """

    workspace: str
    home: str
    protected: tuple[str, ...]
    resolve: Callable[[str], str]

    def inside(self, path: str) -> bool:
        """Whether a resolved path lies in the workspace."""
        return is_within(path, self.workspace)

    def holdfast(self, path: str) -> bool:
        """Whether a resolved path is one of Holdfast's own."""
        return any(is_within(path, own) for own in self.protected)

    def above_holdfast(self, path: str) -> bool:
        """Whether something of Holdfast's own lies below a resolved path."""
        return any(is_within(own, path) for own in self.protected)

    def dear(self, path: str) -> bool:
        """Whether losing the whole of a resolved path is losing the machine or a home."""
        return path == "/" or path in _SYSTEM_TREES or is_within(self.home, path)

    def resolved(self, text: str, cwds: Iterable[str]) -> frozenset[str]:
        """Every place that a path's text may mean, seen from these directories."""
        if "\0" in text:
            return frozenset(("/\0",))
        if text in HARMLESS_DEVICES:
            return frozenset((text,))
        return frozenset(self.resolve(posixpath.join(cwd, text)) for cwd in cwds)

    def expanded(self, word: Word) -> str:
        """The word's text, with home in place of what would be expanded to it."""
        return word.text if word.literal else _HOME.sub(lambda _: self.home, word.text, count=1)

    def named(self, word: Word, cwds: Iterable[str]) -> frozenset[str]:
        """The one path that a word names."""
        return self.resolved(self.expanded(word), cwds)

    def mentioned(self, word: Word, cwds: Iterable[str]) -> frozenset[str]:
        """Every path that a word may name to some program: whole, or behind an option's letter or an =."""
        known = tuple(cwds)
        found = (self.resolved(piece, known) for piece in _pieces(self.expanded(word)))
        return frozenset(path for paths in found for path in paths)

    def emptied(self, word: Word, cwds: Iterable[str]) -> frozenset[str]:
        """What a word stands for as the target of a removal: x/* is as good as x."""
        text = self.expanded(word)
        directory, slash, last = text.rpartition("/")
        if not word.literal and word.why != GLOB and not slash:
            return self.resolved(text, cwds)
        if not word.literal and _ALL_OF_IT.fullmatch(last):
            text = (directory or "/") if slash else "."
        return self.resolved(text, cwds)


def is_within(path: str, root: str) -> bool:
    """Whether a path is a directory or lies below it."""
    return path == root or path.startswith(root.rstrip("/") + "/")


def is_secret(path: str) -> bool:
    """Whether a path looks like one where secrets are kept."""
    parts = path.lower().split("/")
    name = parts[-1]
    if name.startswith(".env") and not name.endswith(_EXAMPLES):
        return name in {".env", ".envrc"} or name.startswith(".env.")
    if path.startswith("/proc/") or any(tree in f"{path.lower()}/" for tree in _SECRET_TREES):
        return True
    return name in _SECRET_NAMES or name.endswith(_SECRET_ENDINGS) or not _SECRET_PARTS.isdisjoint(parts)


def is_repository_file(path: str) -> bool:
    """Whether a path is one of git's own files, which say what programs git runs."""
    return ".git" in path.lower().split("/")


def is_disk(path: str) -> bool:
    """Whether a path is a disk or a part of one."""
    return _DISK.fullmatch(path) is not None


def _pieces(text: str) -> Iterator[str]:
    """The parts of a word that a program may take for a path."""
    if not text.startswith("-"):
        yield text
    pieces = _PIECES.split(text, maxsplit=PIECES_MAX)
    if len(pieces) > 1:
        yield from (piece for piece in pieces if piece)
    if len(pieces) > PIECES_MAX:
        yield "/"
    if text.startswith("-"):
        # A value may stand right behind the letters of its option, and how many these are is not known.
        joined = pieces[0] if "=" in text else text
        starts = [at for at in (joined.find("/"), joined.find("~"), joined.find("..")) if at > 0]
        if starts:
            yield joined[min(starts) :]
