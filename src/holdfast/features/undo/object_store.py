"""The shadow repository: stored files of all workspaces, in git's own format, and the names that keep them.

Refs are grouped by session, so that purging a session drops its refs; `collect` then removes what no ref
leads to. All methods block, and may be called from any thread.
"""

import os
import shutil
import threading
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from itertools import count
from pathlib import Path
from secrets import token_hex

from holdfast.features.undo.packs import DamagedPack, Kind, Pack, PackWriter, parse_tree, sync_folder

PACKS_MAX = 40  # if there are more, the small ones are joined
SMALL_BYTES = 8_000_000
_CONFIG = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"
_REFS = "refs/sessions"
_GENERATION = "generation"


class MissingObject(Exception):
    """Something that is named is not stored, because its session was purged or it was too old to keep."""


class ObjectStore:
    """One repository in the data directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._packs: list[Pack] | None = None
        self._lock = threading.RLock()
        self._users = 0
        self._labels = count(1)

    @property
    def root(self) -> Path:
        """The repository's folder."""
        return self._root

    def _open(self) -> list[Pack]:
        """The packs; the first call makes the repository, or removes what a crash left."""
        with self._lock:
            if self._packs is None:
                self._make()
                for left in self._pack_folder.glob("tmp_*"):
                    left.unlink()
                found = sorted(self._pack_folder.glob("pack-*.pack"))
                for path in found:
                    if not path.with_suffix(".idx").exists():
                        path.unlink()
                self._packs = [Pack(path) for path in found if path.exists()]
            return self._packs

    def _make(self) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (self._pack_folder, self._root / _REFS):
            folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("config", _CONFIG), ("HEAD", "ref: refs/heads/none\n")):
            if not (self._root / name).exists():
                _write(self._root / name, text.encode())

    @property
    def _pack_folder(self) -> Path:
        return self._root / "objects" / "pack"

    @property
    def generation(self) -> str:
        """Changes whenever stored objects are removed, so that nobody relies on them."""
        try:
            return (self._root / _GENERATION).read_text()
        except FileNotFoundError:
            return ""

    @contextmanager
    def using(self) -> Generator[None]:
        """Nothing is removed during the block: objects that are already stored can be relied on."""
        with self._lock:
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1

    def close(self) -> None:
        """Forget the packs; a later call looks for them again."""
        with self._lock:
            self._packs = None

    @contextmanager
    def batch(self) -> Generator["Batch"]:
        """Collects objects; leaving the block without an error stores them for good."""
        self._open()
        writer = PackWriter.begin(self._pack_folder, f"{os.getpid()}_{next(self._labels)}")
        try:
            yield Batch(self, writer)
            if len(writer):
                self._add(writer.finish())
        finally:
            writer.abandon()

    def _add(self, path: Path) -> None:
        with self._lock:
            packs = self._open()
            if all(pack.path != path for pack in packs):
                packs.append(Pack(path))
            small = (
                [pack for pack in packs if pack.file_bytes <= SMALL_BYTES] if len(packs) > PACKS_MAX else []
            )
            if len(small) > 1:
                self._replace(small, {name for pack in small for name in pack.names()})

    def _replace(self, old: list[Pack], names: set[bytes]) -> None:
        """Put these objects of some packs into a new one, and remove the old ones."""
        writer = PackWriter.begin(self._pack_folder, f"{os.getpid()}_{next(self._labels)}")
        try:
            for pack in old:
                for name in pack.names():
                    if name in names and (found := pack.read(name)) is not None:
                        writer.add(*found)
            path = writer.finish() if len(writer) else None
        finally:
            writer.abandon()
        gone = [pack for pack in old if pack.path != path]  # one of them may have had just these
        for pack in gone:
            pack.remove()
        sync_folder(self._pack_folder)
        kept = [pack for pack in self._open() if pack not in gone and pack.path != path]
        self._packs = [*kept, *([Pack(path)] if path is not None else [])]

    def has(self, name: bytes) -> bool:
        """Whether the object is stored."""
        with self._lock:
            return any(pack.has(name) for pack in self._open())

    def read(self, name: bytes, kind: Kind) -> bytes:
        """An object's data; raises MissingObject, or DamagedPack."""
        found = self._read(name)
        if found is None:
            raise MissingObject(f"{kind} {name.hex()} is not stored any more")
        if found[0] != kind:
            raise DamagedPack(f"{name.hex()} is a {found[0]}, not a {kind}")
        return found[1]

    def _read(self, name: bytes) -> tuple[Kind, bytes] | None:
        with self._lock:
            for pack in self._open():
                found = pack.read(name)
                if found is not None:
                    return found
        return None

    def keep(self, session_id: str, run_id: str, *, label: str, name: bytes) -> None:
        """Keep an object, and everything it names, as long as the session exists; on disk on return."""
        self._open()
        with self._lock:  # a purge of the session must not come between the folder and the file
            folder = self._session(session_id) / run_id
            if not folder.is_dir():
                folder.mkdir(parents=True)
                for made in (folder, folder.parent, folder.parent.parent):
                    sync_folder(made)
            _write(folder / label, name.hex().encode() + b"\n")

    def drop_session(self, session_id: str) -> bool:
        """Drop what keeps the session's objects; returns whether there was anything."""
        return self._drop(self._session(session_id))

    def has_session(self, session_id: str) -> bool:
        """Whether anything is kept for the session."""
        return self._session(session_id).is_dir()

    def kept_runs(self) -> dict[str, list[str]]:
        """The runs for which something is kept, by a mark of their session."""
        found: dict[str, list[str]] = {}
        for folder in (self._root / _REFS).glob("*/*"):
            found.setdefault(folder.parent.name, []).append(folder.name)
        return found

    def drop_marked(self, mark: str) -> bool:
        """Drop what keeps the objects of the session with this mark."""
        return self._drop(self._root / _REFS / mark)

    def _drop(self, folder: Path) -> bool:
        with self._lock:
            if not folder.is_dir():
                return False
            shutil.rmtree(folder)
            sync_folder(folder.parent)
            return True

    def drop_older(self, before_ns: int) -> int:
        """Drop what was kept before then; returns how many refs went."""
        gone = 0
        with self._lock:
            self._open()
            for ref in (self._root / _REFS).glob("*/*/*"):
                if ref.stat().st_mtime_ns < before_ns:
                    ref.unlink()
                    gone += 1
        return gone

    def _session(self, session_id: str) -> Path:
        # A session's id may hold what a file name or a ref may not.
        return self._root / _REFS / sha256(session_id.encode("utf-8", "surrogateescape")).hexdigest()[:40]

    def collect(self) -> int | None:
        """Remove the objects that no ref leads to; returns how many went, or None if the store is in use."""
        with self._lock:
            if self._users:
                return None
            live = self._live()
            gone = [pack for pack in self._open() if any(name not in live for name in pack.names())]
            if not gone:
                return 0
            _write(self._root / _GENERATION, token_hex(8).encode())
            before = sum(len(pack) for pack in self._open())
            self._replace(gone, set(live))
            return before - sum(len(pack) for pack in self._open())

    def _live(self) -> dict[bytes, Kind]:
        """Every object that a ref leads to and that is stored."""
        live: dict[bytes, Kind] = {}
        refs = (self._root / _REFS).glob("*/*/*")
        ahead = [bytes.fromhex(ref.read_text().strip()) for ref in refs]
        while ahead:
            name = ahead.pop()
            if name in live:
                continue
            found = self._read(name)
            if found is None:
                continue
            live[name] = found[0]
            if found[0] == "tree":
                ahead += (entry.name for entry in parse_tree(found[1]).values())
        return live


class Batch:
    """Objects that are about to be stored together."""

    def __init__(self, store: ObjectStore, writer: PackWriter) -> None:
        self._store = store
        self._writer = writer

    def add(self, kind: Kind, data: bytes, *, name: bytes) -> None:
        """Add an object under its name, unless it is stored already."""
        if name not in self._writer and not self._store.has(name):
            self._writer.add(kind, data)


def _write(path: Path, data: bytes) -> None:
    """Replace a small file as a whole, on disk on return."""
    temporary = path.with_name(f"{path.name}.new")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)
