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

from holdfast.undo.packs import DamagedPack, Kind, Pack, PackWriter, sync_folder
from holdfast.undo.trees import parse_tree

PACKS_MAX = 40  # more than these are joined into one
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
                found = sorted(self._pack_folder.glob("pack-*.idx"))
                self._packs = [Pack(path.with_suffix(".pack")) for path in found]
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
        """Close the files; a later call opens them again."""
        with self._lock:
            for pack in self._packs or ():
                pack.close()
            self._packs = None

    @contextmanager
    def batch(self) -> Generator["Batch"]:
        """Collects objects; leaving the block without an error stores them for good."""
        self._open()
        writer = PackWriter.begin(self._pack_folder, f"{os.getpid()}_{next(self._labels)}")
        try:
            batch = Batch(self, writer)
            yield batch
            if len(writer):
                batch.path = path = writer.finish()
                with self._lock:
                    packs = self._open()
                    if all(pack.path != path for pack in packs):
                        packs.append(Pack(path))
        finally:
            writer.abandon()

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
        with self._lock:
            folder = self._session(session_id)
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
        """Remove the objects that no ref leads to; returns how many went, or None if the store is in use.

        Also joins many packs into one.
        """
        with self._lock:
            if self._users:
                return None
            packs = self._open()
            live = self._live()
            total = sum(len(pack) for pack in packs)
            if total == len(live) and len(packs) <= PACKS_MAX:
                return 0
            _write(self._root / _GENERATION, token_hex(8).encode())
            old = list(packs)
            with self.batch() as batch:
                for name, kind in live.items():
                    batch.add_again(kind, self.read(name, kind))
            self._packs = [pack for pack in packs if pack.path == batch.path]
            for pack in old:
                if pack.path == batch.path:  # one of them had all that lives
                    continue
                pack.close()
                # Without its index, a pack is invisible.
                pack.path.with_suffix(".idx").unlink()
                pack.path.unlink()
            sync_folder(self._pack_folder)
            return total - len(live)

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
        self.path: Path | None = None  # of the pack, once they are stored

    def add(self, kind: Kind, data: bytes, *, name: bytes) -> None:
        """Add an object under its name, unless it is stored already."""
        if name not in self._writer and not self._store.has(name):
            self._writer.add(kind, data)

    def add_again(self, kind: Kind, data: bytes) -> None:
        """Add an object even if it is stored already."""
        self._writer.add(kind, data)

    @property
    def bytes_written(self) -> int:
        """How much is on its way to the disk."""
        return self._writer.bytes_written


def _write(path: Path, data: bytes) -> None:
    """Replace a small file as a whole, on disk on return."""
    temporary = path.with_name(f"{path.name}.new")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)
