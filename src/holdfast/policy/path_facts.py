"""Facts about paths: whether they are in the workspace, secret, Holdfast's own, or vital."""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Protocol

from msgspec import Struct, field
from typing_extensions import override

from holdfast.interfaces.workspace_paths import is_repository_file, is_within
from holdfast.policy.repositories import Repository, no_repository
from holdfast.policy.secret_names import is_secret
from holdfast.policy.shell.option_tables import Reach
from holdfast.policy.shell.words import GLOB, NOTHING, Word


class SecretFinder(Protocol):
    """Searches files for secrets. Each method returns "", or the end of a sentence: what would be read.

    If it cannot find out in time, it returns a text that says so. It never raises.
    """

    def secret_below(self, folder: str, *, reach: Reach) -> str:
        """A secret file below a resolved folder; `reach` says whether hidden files and links count."""
        ...

    def secret_in_history(self, folder: str) -> str:
        """A secret file that the folder's repository tracks or once tracked."""
        ...

    def secret_in_remotes(self, folder: str) -> str:
        """A password or token in the remote addresses of the folder's repository."""
        ...


class NoSecretFinder(SecretFinder):
    """Finds nothing; for judging commands without looking at files."""

    @override
    def secret_below(self, folder: str, *, reach: Reach) -> str:
        del folder, reach
        return ""

    @override
    def secret_in_history(self, folder: str) -> str:
        del folder
        return ""

    @override
    def secret_in_remotes(self, folder: str) -> str:
        del folder
        return ""


PIECES_MAX = 16
SPELLINGS_MAX = 16
HARMLESS_DEVICES = frozenset(("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/tty"))

# fmt: off
_SYSTEM_TREES = frozenset((
    "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/root", "/sbin", "/sys", "/usr",
    "/var", "/Applications", "/Library", "/System", "/Users",
))
# fmt: on
_DISK = re.compile(
    r"/dev/(?:r?disk|sd|hd|vd|xvd|nvme|mmcblk|md|dm-|mapper/|loop|nbd|zd|sr|ram)\w*.*"
    r"|/dev/(?!tty)[a-z]{0,3}[$`].*",  # a name that is put together only when it runs
    re.DOTALL,
)
# Possessive, here and below: a text of the model must not make a search go back and forth.
_CLASS = r"\[(?=[!^]|[^]]*?a-z)[^]]++\]"
_ALL_OF_IT = re.compile(rf"(?:[.?]|{_CLASS})*+\*(?:[.*?]|{_CLASS})*+")
_HOME = re.compile(r"(?:~(\w*)|\$HOME|\$\{HOME\b[^{}]*\})(?=/|$)")
_HERE = re.compile(r"(?:~\+|\$PWD|\$\{PWD\b[^{}]*\})(?=/|$)")
# Only what a process calls its own: that of another is wherever the system says that it is.
_OWN = re.compile(r"/+proc/+(?:self|thread-self)/+(root|cwd)(?=/|$)")
_BRACES = re.compile(r"\{(?=[^{}]*?(?:,|\.\.))([^{}]*+)\}")
_PATTERN = re.compile(r"[*?\[]")
_PIECES = re.compile(r"[=:,@]")
# An expansion: of a variable, perhaps one that must be set (${x:?}), or of a command's output.
_EXPANSION = re.compile(r"\$\{(\w++)(:?\?)?[^{}]*+\}|\$(\w++)|\$\(.*\)|`[^`]*+`", re.DOTALL)


class Below(Struct, frozen=True):
    """The contents of a copy of a path: the names below it, and whether there are links."""

    names: tuple[str, ...] = ()
    links: bool = False
    known: bool = True  # False: it is not there, or there is too much of it


def nothing_below(_path: str) -> Below:
    """A plain file; for judging without looking at files."""
    return Below()


def no_matches(_directory: str, _pattern: str) -> None:
    """Nothing is known about patterns; for judging without looking at files."""


class PathFacts(Struct, frozen=True):
    """The paths that an action is judged by, all absolute and without links.

    `resolve` follows the links of an absolute path; it must return an absolute path and never raise.
    `repository` returns what git would obey in a directory, or with a given git folder, `below` what is
    below a path, and `matches` the words that a shell in a directory would put in place of a pattern of plain
    letters, stars and question marks (None if it can't say); they must never raise either.
    """

    workspace: str
    home: str
    protected: tuple[str, ...]
    resolve: Callable[[str], str]
    config: str = ""  # the configuration file that counts, if any
    repository: Callable[[str, str], Repository] = no_repository
    below: Callable[[str], Below] = nothing_below
    matches: Callable[[str, str], tuple[str, ...] | None] = no_matches
    secret_finder: SecretFinder = field(default_factory=NoSecretFinder)
    given: frozenset[str] = frozenset()  # variables that the script itself sets to something

    def inside(self, path: str) -> bool:
        """Whether a resolved path is in the workspace."""
        return is_within(path, self.workspace)

    def holdfast(self, path: str) -> bool:
        """Whether a resolved path belongs to Holdfast."""
        return any(is_within(path, own) for own in self.protected)

    def configures(self, path: str) -> bool:
        """Whether a resolved path is the configuration file in use."""
        return path == self.config and path not in HARMLESS_DEVICES

    def kept(self, path: str) -> str:
        """Why reading a resolved path needs approval even in the workspace; empty if it does not."""
        if self.configures(path):
            return f"{path} is Holdfast's configuration."
        if is_secret(path) or self.holdfast(path):
            return f"{path} may hold secrets."
        if path.lower().endswith("/.git/config") and self.secret_finder.secret_in_remotes(
            posixpath.dirname(path)
        ):
            return f"{path} contains a password."
        return ""

    def is_unmasked(self, path: str) -> bool:
        """Whether a sandbox leaves a kept path readable, because programs need it there."""
        return self.configures(path) or is_repository_file(path)

    def ordinary(self, path: str) -> bool:
        """Whether a resolved path is an ordinary workspace file: not secret, not git's, not Holdfast's."""
        own = self.holdfast(path) or self.configures(path)
        return self.inside(path) and not (own or is_secret(path) or is_repository_file(path))

    def above_holdfast(self, path: str) -> bool:
        """Whether anything below a resolved path belongs to Holdfast."""
        return any(is_within(own, path) for own in self.protected)

    def dear(self, path: str) -> bool:
        """Whether losing everything below a resolved path would destroy the system or a home directory."""
        return path == "/" or path in _SYSTEM_TREES or is_within(self.home, path)

    def resolved(self, text: str, cwds: Iterable[str]) -> frozenset[str]:
        """Every resolved path that a text may mean, relative to these directories."""
        if "\0" in text:
            return frozenset(("/\0",))
        if text in HARMLESS_DEVICES:
            return frozenset((text,))
        return frozenset(self.resolve(_as_its_own(posixpath.join(cwd, text), cwd)) for cwd in cwds)

    def expanded(self, word: Word) -> str:
        """The word's text, with the home and current directories expanded."""
        if word.literal:
            return word.text
        text = word.text.replace('"', "") if "${" in word.text else word.text
        text = NOTHING.sub("", text) if text.startswith("/") else text
        return _HERE.sub(".", _HOME.sub(self._home_of, text, count=1), count=1)

    def _home_of(self, found: re.Match[str]) -> str:
        user = found[1] or ""
        if user in {"", posixpath.basename(self.home)}:
            return self.home
        return "/root" if user == "root" else found[0]

    def spellings(self, word: Word) -> tuple[str, ...]:
        """Every text that a word may expand to, as far as it shows: braces can mean several."""
        if word.literal or not _BRACES.search(word.text):
            return (self.expanded(word),)
        return tuple(self.expanded(Word(text, word.why)) for text in _spread(word.text))

    def named(self, word: Word, cwds: Iterable[str]) -> frozenset[str]:
        """The paths that a whole word may name."""
        known = tuple(cwds)
        return frozenset(path for text in self.spellings(word) for path in self.resolved(text, known))

    def mentioned(self, word: Word, cwds: Iterable[str]) -> frozenset[str]:
        """Every path that a word may pass to a program: whole, or after an option letter or an =."""
        known = tuple(cwds)
        pieces = [piece for text in self.spellings(word) for piece in _pieces(text)]
        found = frozenset(path for piece in pieces for path in self.resolved(piece, known))
        return found if word.literal else found | self._matched(pieces, known, among=self.protected)

    def emptied(self, word: Word, cwds: Iterable[str]) -> frozenset[str]:
        """Return the path that a word removes as the target of a removal: x/* counts as x."""
        known = tuple(cwds)
        texts = self.spellings(word)
        if word.literal:
            return self.resolved(texts[0], known)
        texts = (*texts, *filter(None, map(self._unset, texts)))
        whole = frozenset(path for text in texts for path in self.resolved(_whole(text, word.why), known))
        return whole | self._matched(texts, known, among=(*_SYSTEM_TREES, self.home))

    def _unset(self, text: str) -> str:
        """Return the text with empty variables: both /$x and $x/ count as /."""
        text = text.replace('"', "")
        first = _EXPANSION.search(text)
        if first is None:
            return ""
        name = first[1] or first[3]
        is_set = first[2] or not name or name in self.given
        return "" if first.start() == 0 and is_set else _EXPANSION.sub("", text)

    def _matched(
        self, texts: Iterable[str], cwds: tuple[str, ...], *, among: Iterable[str]
    ) -> frozenset[str]:
        """Those of the paths that file name patterns match, directly or above or below."""
        patterns = {
            posixpath.normpath(posixpath.join(cwd, text))
            for text in texts
            if _PATTERN.search(text)
            for cwd in cwds
        }
        found = (_reached(pattern, path) for pattern in patterns for path in among)
        return frozenset(path for path in found if path)


def _spread(text: str) -> list[str]:
    """The texts that braces expand to, up to a maximum; of a range, only the ends."""
    texts, done = [text], 0
    while done < len(texts) <= SPELLINGS_MAX:
        found = _BRACES.search(texts[done])
        if found is None:
            done += 1
            continue
        parts = re.split(r",|\.\.", found[1], maxsplit=SPELLINGS_MAX)
        before, after = texts[done][: found.start()], texts[done][found.end() :]
        texts[done : done + 1] = [f"{before}{part}{after}" for part in parts]
    return texts[:SPELLINGS_MAX]


def _whole(text: str, why: str) -> str:
    """The directory whose whole contents a pattern matches, or the text itself."""
    directory, slash, last = text.rpartition("/")
    if not _ALL_OF_IT.fullmatch(last) or (why != GLOB and not slash):
        return text
    return (directory or "/") if slash else "."


def _reached(pattern: str, path: str) -> str:
    """Where a pattern matches a path: at it, above it or below it; empty if it does not."""
    wanted, parts = pattern.split("/")[1:], path.split("/")[1:]
    for want, part in zip(wanted, parts, strict=False):
        same = fnmatchcase(part, want.replace("[^", "[!"))  # a shell knows both signs, this only the latter
        # A pattern finds no hidden file unless it says so.
        if not same or (part.startswith(".") and not want.startswith(".")):
            return ""
    both = min(len(wanted), len(parts))
    return "/" + "/".join((*parts[:both], *wanted[both:]))


def _as_its_own(path: str, cwd: str) -> str:
    """The path with /proc/self/root and /proc/self/cwd replaced by what they mean."""
    found = _OWN.match(path)
    if found is None:
        return path
    return ("" if found[1] == "root" else cwd) + path[found.end() :] or "/"


def is_disk(path: str) -> bool:
    """Whether a path is a disk or a partition."""
    return _DISK.fullmatch(path) is not None


def _pieces(text: str) -> Iterator[str]:
    """The parts of a word that a program may read as a path."""
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
