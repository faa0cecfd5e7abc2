"""Settings that git would obey in a directory, read from the disk without running git.

The repository is found as git finds it: from the directory upwards, a `.git` folder, a `.git` file that names
one, or a folder that is one itself. If git could find more than one, all of them count. Submodules
count too, because `git status` enters them. A repository outside the workspace that does not itself name the
workspace (as the one of a linked working tree does) is a reason to ask.

Links and special files inside a git folder. Git creates hardly any of them but follows all: the target of a
link is shown in an error, in a status or as the history of the repository, and a FIFO keeps git waiting.

The submodules that a repository's index names, read without git.
"""

import os
import stat
import struct
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from msgspec import Struct, field

from holdfast.interfaces.workspace_paths import is_within
from holdfast.policy.git_config import BadGitConfig, Setting, read_git_config
from holdfast.policy.repositories import NamedFile, Repository, names_file
from holdfast.policy.secret_names import is_secret
from holdfast.tools.files.regular_files import read_regular

INDEX_BYTES_MAX = 256 * 1024 * 1024
NAMES_MAX = 10_000
SHARED_MAX = 8
_LINK_MODE = 0o160000
_LINK_BYTES = struct.pack(">I", _LINK_MODE)
_INDEX_MODES = frozenset((0o100000, 0o120000, 0o160000, 0o040000))
_HEADER_BYTES = 12
_FIXED_BYTES = 40  # times, device, inode, mode, owner and size of an entry
_EXTENDED = 0x4000
_LONG_NAME = 0xFFF
_HASH_BYTES = (20, 32)


class BadIndex(ValueError):
    """An index that cannot be read here; the text says why."""


def submodules_of(git_dir: Path) -> tuple[str, ...]:
    """The paths of submodules; raises BadIndex or OSError."""
    found: list[str] = []
    for file in (git_dir / "index", *_shared(git_dir)):
        try:
            data = read_regular(file, bytes_max=INDEX_BYTES_MAX)
        except FileNotFoundError:
            continue
        # Most repositories have no submodule, and then these bytes are hardly ever there.
        if _LINK_BYTES in data:
            found += _links(data)
    return tuple(dict.fromkeys(found))


def _shared(git_dir: Path) -> list[Path]:
    """The shared parts of a split index."""
    with os.scandir(git_dir) as entries:
        names = [entry.name for entry in islice(entries, NAMES_MAX + 1)]
    shared = [git_dir / name for name in names if name.startswith("sharedindex.")]
    if len(names) > NAMES_MAX or len(shared) > SHARED_MAX:
        raise BadIndex("there are too many files beside it")
    return shared


def _links(data: bytes) -> list[str]:
    """The submodules among the entries, for either length of object names."""
    if data[:4] != b"DIRC" or len(data) < _HEADER_BYTES:
        raise BadIndex("it does not begin like an index")
    found: list[str] = []
    problems: list[str] = []
    for hash_bytes in _HASH_BYTES:
        try:
            found += list(_Entries(data, hash_bytes).links())
        except (BadIndex, struct.error, IndexError) as error:
            problems.append(str(error))
    if len(problems) == len(_HASH_BYTES):
        raise BadIndex(problems[0])
    return found


class _Entries:
    """Goes through the entries once; `at` is the next byte."""

    def __init__(self, data: bytes, hash_bytes: int) -> None:
        self._data = data
        self._before_flags = _FIXED_BYTES + hash_bytes
        self._at = _HEADER_BYTES
        self._path = b""

    def links(self) -> Iterator[str]:
        version, entries = struct.unpack_from(">II", self._data, 4)
        if version not in {2, 3, 4}:
            raise BadIndex(f"its version is {version}")
        for _ in range(entries):
            (mode,) = struct.unpack_from(">I", self._data, self._at + 24)
            if mode & 0o170000 not in _INDEX_MODES:
                raise BadIndex("an entry has an unknown type")
            if version == 4:  # noqa: PLR2004 - names are told by what differs from the one before
                self._shared_name()
            else:
                self._padded_name()
            if mode == _LINK_MODE:
                if not self._path:
                    raise BadIndex("a submodule has no name")
                yield self._path.decode("utf-8", "surrogateescape")

    def _flags(self) -> int:
        """The flags of the entry; moves on to its name."""
        (flags,) = struct.unpack_from(">H", self._data, self._at + self._before_flags)
        self._at += self._before_flags + (4 if flags & _EXTENDED else 2)
        return int(flags)

    def _padded_name(self) -> None:
        start = self._at
        told = self._flags() & _LONG_NAME
        end = self._data.find(b"\0", self._at)
        if end < 0 or (told < _LONG_NAME and end - self._at != told):
            raise BadIndex("a name's length is wrong")
        self._path = self._data[self._at : end]
        self._at = start + (end - start + 8) // 8 * 8

    def _shared_name(self) -> None:
        self._flags()
        byte = self._data[self._at]
        cut = byte & 127
        while byte & 128:
            self._at += 1
            byte = self._data[self._at]
            cut = ((cut + 1) << 7) | (byte & 127)
        end = self._data.find(b"\0", self._at + 1)
        if end < 0 or cut > len(self._path):
            raise BadIndex("a name has no end, or no beginning")
        self._path = self._path[: len(self._path) - cut] + self._data[self._at + 1 : end]
        self._at = end + 1


ENTRIES_MAX = 50_000
ODD_MAX = 5
_WATCHER = "fsmonitor--daemon.ipc"  # where git's own file watcher listens
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class GitFolders(Struct):
    """The git folders searched so far, with one limit for all of them."""

    seen: set[str] = field(default_factory=set[str])
    entries: int = 0
    odd: int = 0

    def doubts(self, root: str, *, top: str) -> Iterator[str]:
        """Sentences about what git should not read below a folder, with names relative to `top` if any."""
        folders = [root]
        while folders and self.odd < ODD_MAX:
            folder = folders.pop()
            if folder in self.seen:
                continue
            self.seen.add(folder)
            try:
                found = self._entries_of(folder, root)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                yield f"`{_shown(folder, top)}` cannot be searched: {error.strerror}."
                continue
            if self.entries > ENTRIES_MAX:
                yield f"`{_shown(root, top)}` has more than {ENTRIES_MAX:,} files, too many to check."
                return
            folders += (entry.path for entry in found if entry.is_dir(follow_symlinks=False))
            odd = ((entry, kind) for entry in found if (kind := _odd(entry)))
            for entry, kind in islice(odd, ODD_MAX - self.odd):
                self.odd += 1
                yield f"`{_shown(entry.path, top)}` is {kind}, which git would follow or wait for."

    def _entries_of(self, folder: str, root: str) -> list[os.DirEntry[str]]:
        """The entries of a folder without hooks, which are judged separately."""
        with os.scandir(folder) as entries:
            found = list(islice(entries, ENTRIES_MAX - self.entries + 1))
        self.entries += len(found)
        if folder == root or _is_module(folder, root, found):
            return [entry for entry in found if entry.name != "hooks"]
        return found


def _is_module(folder: str, root: str, entries: list[os.DirEntry[str]]) -> bool:
    """Whether a folder in a git folder belongs to a submodule."""
    names = {"HEAD", "objects"}
    return folder.startswith(f"{root}/modules/") and names <= {entry.name for entry in entries}


def _odd(entry: os.DirEntry[str]) -> str:
    """Return the kind of special file of an entry; empty for a regular file."""
    if entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False):
        return ""
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:
        return ""  # gone by now, like a lock of git's
    if stat.S_ISSOCK(mode) and entry.name == _WATCHER:
        return ""
    return _KINDS.get(stat.S_IFMT(mode), "")


def _shown(path: str, top: str) -> str:
    return str(Path(path).relative_to(top)) if Path(path).is_relative_to(top) else path


CONFIG_BYTES_MAX = 1024 * 1024
POINTER_BYTES_MAX = 16 * 1024
REPOSITORIES_MAX = 64
FILES_MAX = 100
INCLUDES_DEEP_MAX = 10
HOOKS_MAX = 200
_OPTIONAL = ":(optional)"  # what git takes off the name of a file that need not be there


def repository_at(directory: str, git_dir: str, *, workspace: str) -> Repository:
    """Find the settings and hooks that a git command in the directory would use, or in `git_dir`."""
    look = _Look(workspace, directory)
    try:
        if git_dir:
            look.enter(os.path.realpath(git_dir), top=directory)
        else:
            look.discover(directory)
    except ValueError:  # a name with characters that no file has
        look.doubts.append("Holdfast cannot inspect the directory where git would run.")
    return Repository(
        tuple(look.settings),
        tuple(dict.fromkeys(look.hooks)),
        tuple(dict.fromkeys(look.doubts)),
        tuple(dict.fromkeys(look.named)),
    )


class _Look(Struct):
    """One search from a directory; it ends, however the files refer to each other."""

    workspace: str
    directory: str  # where git starts
    settings: list[Setting] = field(default_factory=list[Setting])
    hooks: list[str] = field(default_factory=list[str])
    doubts: list[str] = field(default_factory=list[str])
    named: list[NamedFile] = field(default_factory=list[NamedFile])
    folders: GitFolders = field(default_factory=GitFolders)
    stores: set[str] = field(default_factory=set[str])  # folders of objects besides the repositories' own
    entered: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    files: int = 0

    def discover(self, directory: str) -> None:
        """Go up from a directory to the repository that git would find."""
        folder = Path(directory)
        for place in (folder, *folder.parents):
            git_dir = self._named_by(place)
            if git_dir:
                self.enter(git_dir, top=str(place))
                if _is_repository(git_dir):
                    return
            if _is_repository(str(place)):
                self.doubts.append(
                    f"{place} looks like a repository without a working tree, and git would obey it."
                )
                self.enter(str(place), top=str(place))
                return

    def enter(self, git_dir: str, *, top: str) -> None:
        """Add the repository with this git folder and this top of its working tree."""
        if (git_dir, top) in self.entered:
            return
        if len(self.entered) >= REPOSITORIES_MAX:
            self.doubts.append(f"There are more than {REPOSITORIES_MAX} repositories in one another.")
            return
        self.entered.add((git_dir, top))
        common = self._common_of(git_dir)
        inside = (self.workspace, os.path.realpath(top))
        if not any(is_within(git_dir, root) for root in inside):
            if not self._is_bound_to(git_dir, top):
                self.doubts.append(f"The repository of {top} is {git_dir}, which is outside the workspace.")
                return
            inside = (*inside, git_dir, common)
        elif not any(is_within(common, root) for root in inside):
            self.doubts.append(
                f"The repository {git_dir} takes its settings from {common}, outside the workspace."
            )
            return
        for folder in (common, git_dir):
            self.doubts += self.folders.doubts(folder, top=os.path.realpath(top))
        found = [
            *self._config(Path(common, "config"), inside),
            *self._config(Path(git_dir, "config.worktree"), inside),
        ]
        self.settings += found
        self._look_at_hooks(found, common=common, top=top)
        self._look_at_alternates(Path(common, "objects"), inside)
        trees = (top, *self._trees(found, git_dir, inside))
        self._look_at_named_files(found, (*trees, git_dir, self.directory))
        for tree in trees:
            self._look_at_submodules(git_dir, tree)

    def _named_by(self, place: Path) -> str:
        """The repository that the `.git` of a folder is or names; nothing if there is none."""
        dot = place / ".git"
        try:
            if dot.is_dir():
                return os.path.realpath(dot)
            if not dot.is_file():
                return ""
            text = os.fsdecode(read_regular(dot, bytes_max=POINTER_BYTES_MAX))
        except OSError as error:
            self.doubts.append(f"{dot} cannot be read: {error.strerror}.")
            return ""
        if not text.startswith("gitdir:"):
            return ""
        if "\0" in text:
            self.doubts.append(f"{dot} holds a NUL byte.")
            return ""
        # Git takes off one blank before the name and line ends after it, and no more.
        return os.path.realpath(place / text.removeprefix("gitdir:").removeprefix(" ").rstrip("\r\n"))

    def _common_of(self, git_dir: str) -> str:
        """Where the settings of a linked working tree are: with those of the others."""
        text = self._pointer(Path(git_dir, "commondir"))
        return os.path.realpath(Path(git_dir, text)) if text else git_dir

    def _is_bound_to(self, git_dir: str, top: str) -> bool:
        """Whether a repository outside names this working tree as its own."""
        back = self._pointer(Path(git_dir, "gitdir"))
        if back and os.path.realpath(Path(git_dir, back)) == os.path.realpath(Path(top, ".git")):
            return True
        trees = [
            one.value or "" for one in self._config(Path(git_dir, "config"), (git_dir,)) if _is_tree(one)
        ]
        return any(os.path.realpath(Path(git_dir, tree)) == os.path.realpath(top) for tree in trees)

    def _pointer(self, path: Path) -> str:
        """The contents of a file that names another path; empty if there is no such file."""
        try:
            text = os.fsdecode(read_regular(path, bytes_max=POINTER_BYTES_MAX)).rstrip("\r\n")
        except FileNotFoundError:
            return ""
        except OSError as error:
            self.doubts.append(f"{path} cannot be read: {error.strerror}.")
            return ""
        if "\0" in text:
            self.doubts.append(f"{path} holds a NUL byte.")
            return ""
        return text

    def _config(self, path: Path, inside: tuple[str, ...], *, depth: int = 0) -> list[Setting]:
        """The settings of a file and of those that it includes, whatever the conditions of including them."""
        real = os.path.realpath(path)
        if not any(is_within(real, root) for root in inside):
            self.doubts.append(f"The configuration of git includes {real}, which is outside the workspace.")
            return []
        self.files += 1
        if self.files > FILES_MAX or depth > INCLUDES_DEEP_MAX:
            self.doubts.append(f"The configuration of git includes too many files: {path} is not read.")
            return []
        try:
            settings = read_git_config(read_regular(real, bytes_max=CONFIG_BYTES_MAX), file=str(path))
        except FileNotFoundError:
            return []
        except (OSError, BadGitConfig) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            self.doubts.append(f"The configuration {path} cannot be read: {why}.")
            return []
        found = list(settings)
        for included in _included(settings):
            found += self._config(path.parent / _at_home(included), inside, depth=depth + 1)
        return found

    def _trees(self, settings: list[Setting], git_dir: str, inside: tuple[str, ...]) -> Iterator[str]:
        """The working trees that settings name in place of the folder where the repository was found."""
        for setting in settings:
            if _is_tree(setting):
                tree = os.path.realpath(Path(git_dir, setting.value or ""))
                if not any(is_within(tree, root) for root in inside):
                    self.doubts.append(
                        f"The repository says that its files are in {tree}, outside the workspace."
                    )
                    continue
                yield tree

    def _look_at_hooks(self, settings: list[Setting], *, common: str, top: str) -> None:
        named = [one.value or "" for one in settings if (one.section, one.name) == ("core", "hookspath")]
        for folder in [Path(top, _at_home(text)) for text in named] or [Path(common, "hooks")]:
            try:
                with os.scandir(folder) as entries:
                    names = [entry.name for entry in islice(entries, HOOKS_MAX + 1)]
            except OSError:
                continue  # there is none, or git may not look there either
            if len(names) > HOOKS_MAX:
                self.doubts.append(f"{folder} has more than {HOOKS_MAX} files, which may be hooks.")
            # Hooks with an extension are examples.
            self.hooks += sorted(one for one in names if "." not in one and os.access(folder / one, os.X_OK))

    def _look_at_alternates(self, objects: Path, inside: tuple[str, ...]) -> None:
        """Look through the folders that more objects are taken from, and those that these name in turn."""
        text = self._pointer(objects / "info" / "alternates")
        for line in text.split("\n"):
            if not line or line.startswith("#"):
                continue
            if line.startswith('"'):
                self.doubts.append(f"The repository takes objects from {line}, a name in quotes.")
                continue
            real = os.path.realpath(objects / line)
            if not any(is_within(real, root) for root in inside):
                self.doubts.append(
                    f"The repository takes objects from {real}, which is outside the workspace."
                )
                continue
            if real in self.stores:
                continue
            if len(self.stores) >= FILES_MAX:
                self.doubts.append(f"The repository takes objects from more than {FILES_MAX} folders.")
                return
            self.stores.add(real)
            self.doubts += self.folders.doubts(real, top=self.workspace)
            self._look_at_alternates(Path(real), inside)

    def _look_at_named_files(self, settings: list[Setting], starts: tuple[str, ...]) -> None:
        """Note the settings that make git read a file that it should not."""
        for setting in filter(names_file, settings):
            name = _at_home((setting.value or "").removeprefix(_OPTIONAL))
            reasons = (_unfit(Path(start, name), self.workspace) for start in starts)
            if name and (why := next(filter(None, reasons), "")):
                self.named.append(NamedFile(setting, why))

    def _look_at_submodules(self, git_dir: str, tree: str) -> None:
        try:
            names = submodules_of(Path(git_dir))
        except (BadIndex, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            self.doubts.append(f"The index of {git_dir} cannot be read: {why}.")
            return
        for name in names:
            place = Path(tree, name)
            if ".." not in place.parts and (found := self._named_by(place)):
                self.enter(found, top=str(place))


def _included(settings: tuple[Setting, ...]) -> Iterator[str]:
    for setting in settings:
        if setting.section in {"include", "includeif"} and setting.name == "path" and setting.value:
            yield setting.value


def _is_tree(setting: Setting) -> bool:
    return (setting.section, setting.name) == ("core", "worktree")


def _is_repository(folder: str) -> bool:
    """Whether git would, or nearly would, accept a folder as a repository."""

    def has(name: str) -> bool:
        return os.path.lexists(f"{folder}/{name}")

    return has("HEAD") and ((has("objects") and has("refs")) or has("commondir"))


def _unfit(path: Path, workspace: str) -> str:
    """Why git should not read a file that a repository names; empty if it may."""
    real = os.path.realpath(path)
    if real == os.devnull:
        return ""
    if not is_within(real, workspace):
        return "a file outside the workspace"
    if is_secret(real) or is_secret(str(path)):
        return "a file that may hold secrets"
    try:
        mode = Path(real).stat().st_mode
    except OSError:
        return ""  # git cannot read it either
    return "" if stat.S_ISREG(mode) or stat.S_ISDIR(mode) else "a special file"


def _at_home(text: str) -> str:
    return os.path.expanduser(text)  # noqa: PTH111 - the other one raises for a user that there is not
