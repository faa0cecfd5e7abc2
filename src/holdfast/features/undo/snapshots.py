"""Snapshots of workspaces: opened, taken and read off the event loop, and deleted after a time.

A snapshot is a tree with two entries: the files, and a list of what isn't covered. It is on disk, and kept by
a ref of its session, before `take` returns.
"""

import asyncio
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.features.undo.object_store import Batch, MissingObject, ObjectStore
from holdfast.features.undo.packs import (
    EMPTY_TREE,
    FOLDER_MODE,
    DamagedPack,
    Entry,
    Kind,
    Tree,
    object_name,
    parse_tree,
    tree_data,
)
from holdfast.features.undo.scan import (
    NOT_COVERED_MAX,
    Known,
    NotCovered,
    ScanLimits,
    Scanned,
    ScanStopped,
    TooMuch,
    covers,
    scan,
)
from holdfast.interfaces.feature import FileEdit, Upkeep
from holdfast.interfaces.journal import JournalError
from holdfast.interfaces.workspace_paths import WorkspaceMoved, is_within, unmoved
from holdfast.safe_text import shown_path
from holdfast.tools.offload import offload

if TYPE_CHECKING:
    from holdfast.interfaces.feature import FeatureContext
    from holdfast.server.deps import RouteDeps

_log = logging.getLogger(__name__)

FILES, NOT_COVERED = b"files", b"not-covered"
_REGULAR: Final = 0o100644
_CACHES_IN_MEMORY: Final = 8
_GRACE_S: Final = 2.0  # what a stuck disk gets beyond the limit of a scan
_LINGER_S: Final = 1.0
_COLLECT_S: Final = 86_400.0  # how often to look for old snapshots
_BUSY_S: Final = 1.0  # when to retry while a snapshot is being taken
_REFUSED_S: Final = 600.0


class SnapshotKey(Struct, frozen=True):
    """The owner of a snapshot, and its label."""

    session_id: str
    run_id: str
    label: str


class Snapshot(Struct, frozen=True):
    """A stored workspace: `name` is its id, `root` the tree of its files."""

    name: bytes
    root: bytes
    files: int
    not_covered: int


class NoSnapshot(Struct, frozen=True):
    """Nothing was stored; `why` completes "There is no snapshot, because …"."""

    why: str


class LeftOut(Struct, frozen=True):
    """The files and folders that a snapshot doesn't cover; it lists only so many."""

    paths: frozenset[str]
    is_complete: bool

    def has(self, path: bytes) -> bool:
        """Whether the path, or a folder above it, is listed."""
        names = shown_path(path).split("/")
        return any("/".join(names[:depth]) in self.paths for depth in range(1, len(names) + 1))


class _Cache(msgspec.Struct):
    """The result of a workspace's last scan, stored between processes."""

    workspace: str
    generation: str
    known: Known


class _OpenTurn(Struct):
    workspace: str
    overlaps: set[str] = field(default_factory=set[str])


class OpenTurns:
    """The turns under way that may change files, by run: those in one workspace overlap."""

    def __init__(self) -> None:
        self._turns: dict[str, _OpenTurn] = {}

    def begin(self, run_id: str, real: str) -> tuple[str, ...]:
        """Note a turn in the workspace with this real path; returns the runs that it overlaps."""
        turn = self._turns.setdefault(run_id, _OpenTurn(real))
        for other_id, other in self._turns.items():
            if other_id != run_id and _meet(turn.workspace, other.workspace):
                turn.overlaps.add(other_id)
                other.overlaps.add(run_id)
        return tuple(sorted(turn.overlaps))

    def restore(self, run_ids: Iterable[str], real: str) -> None:
        """Note that files of these runs are put back now, in the middle of the turns that are open there."""
        for other_id, other in self._turns.items():
            if _meet(real, other.workspace):
                other.overlaps.update(run_id for run_id in run_ids if run_id != other_id)

    def end(self, run_id: str) -> tuple[str, ...]:
        """Forget a turn; returns the runs that it overlapped."""
        turn = self._turns.pop(run_id, None)
        return tuple(sorted(turn.overlaps)) if turn is not None else ()


def _meet(one: str, other: str) -> bool:
    return is_within(one, other) or is_within(other, one)


class Snapshots:
    """The snapshots of one data directory."""

    def __init__(
        self,
        folder: Path,
        *,
        limits: ScanLimits | None = None,
        kept_out: tuple[str, ...] = (),
        kept_s: float = 30 * 86_400.0,
    ) -> None:
        self.store = ObjectStore(folder / "objects.git")
        self.turns = OpenTurns()
        self.limits = limits or ScanLimits()
        self.kept_s = kept_s
        self._caches = folder / "caches"
        self._kept_out = kept_out
        self._known: OrderedDict[str, _Cache] = OrderedDict()
        self._known_lock = threading.Lock()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._refused: dict[str, tuple[float, NoSnapshot]] = {}  # by workspace, and until when

    async def real_path(self, workspace: Path) -> str:
        """The workspace's path, if it is still the same folder; raises WorkspaceMoved."""
        return await offload(partial(unmoved, workspace))

    def covers(self, workspace: Path, path: str) -> bool:
        """Return whether undo can reverse an edit of this file, links resolved, judged by its path. Blocks.

        An edit of `.gitignore` changes which files the next snapshot covers.
        """
        if path.rpartition("/")[2].lower() == ".gitignore":
            return False
        return covers(str(workspace), path, limits=self.limits, kept_out=self._kept_out)

    def restores(self, real: str, name: bytes, edit: FileEdit) -> bool:
        """Return whether an undo from this snapshot of the workspace reverses the edit. Blocks.

        The workspace's present ignore rules don't tell: they may have changed since the snapshot.
        """
        if edit.bytes_max > self.limits.file_bytes:
            return False
        try:
            root, left_out = self.root_of(name), self.left_out(name)
            return all(self._has(real, root, path=path, left_out=left_out) for path in edit.paths)
        except (MissingObject, DamagedPack):
            return False

    def _has(self, real: str, root: bytes, *, path: str, left_out: LeftOut) -> bool:
        """Whether the file is stored, or there was none."""
        if not is_within(path, real) or path == real:
            return False
        inside = os.fsencode(os.path.relpath(path, real))
        if (entry := self.lookup(root, inside)) is not None:
            return entry.is_file
        return left_out.is_complete and not left_out.has(inside) and not os.path.lexists(path)

    @asynccontextmanager
    async def workspace(self, workspace: Path) -> AsyncGenerator[str]:
        """The workspace's path, held so that nobody else stores or restores its files meanwhile.

        Raises WorkspaceMoved.
        """
        real = await self.real_path(workspace)
        lock = self._locks.get(real)
        if lock is None:
            lock = self._locks[real] = asyncio.Lock()
        async with lock:
            yield real

    async def take(
        self, workspace: Path, place: SnapshotKey, *, seconds: float | None = None
    ) -> Snapshot | NoSnapshot:
        """Store the workspace as it is now. A cancellation ends it at once, and nothing of it is kept."""
        try:
            async with self.workspace(workspace) as real:
                return await self.take_held(real, place, seconds=seconds)
        except WorkspaceMoved as moved:
            return NoSnapshot(str(moved))

    async def take_held(
        self, real: str, place: SnapshotKey, *, seconds: float | None = None
    ) -> Snapshot | NoSnapshot:
        """The same for a caller that holds the workspace."""
        limits = self.limits if seconds is None else replace(self.limits, seconds=seconds)
        if (refused := self._refused.get(real)) is not None and time.monotonic() < refused[0]:
            return refused[1]
        give_up = threading.Event()
        work = partial(self._take, real, place, limits=limits, give_up=give_up)
        try:
            async with asyncio.timeout(limits.seconds + _GRACE_S):
                return await offload(work, linger_s=_LINGER_S, give_up=give_up)
        except TimeoutError:
            return self._refuse(real, f"reading the workspace takes longer than {limits.seconds:g} s")
        except TooMuch as stopped:
            return self._refuse(real, str(stopped))
        except ScanStopped as stopped:
            return NoSnapshot(str(stopped))
        except OSError as error:
            return NoSnapshot(f"the files could not be stored: {error.strerror or error}")
        except (DamagedPack, MissingObject) as error:
            return NoSnapshot(f"the stored snapshots are damaged: {error}")

    def _refuse(self, real: str, why: str) -> NoSnapshot:
        """Don't make each turn of the next minutes wait for the same limit."""
        refused, now_s = NoSnapshot(why), time.monotonic()
        self._refused = {place: one for place, one in self._refused.items() if now_s < one[0]}
        self._refused[real] = (time.monotonic() + _REFUSED_S, refused)
        return refused

    def _take(
        self, real: str, place: SnapshotKey, *, limits: ScanLimits, give_up: threading.Event
    ) -> Snapshot:
        with self.store.using():
            cache = self._cache(real)
            with self.store.batch() as batch:
                put = partial(_put, batch)
                found = scan(
                    real,
                    put=put,
                    known=cache.known,
                    limits=limits,
                    stopping=give_up.is_set,
                    kept_out=(*self._kept_out, str(self.store.root)),
                )
                name = _wrap(found, batch)
                if give_up.is_set():
                    raise ScanStopped("it was stopped")
            self.store.keep(place.session_id, place.run_id, label=place.label, name=name)
            self._remember(cache, found)
        return Snapshot(name, found.root, found.files, found.not_covered_count)

    def _cache(self, real: str) -> _Cache:
        generation = self.store.generation
        with self._known_lock:
            cache = self._known.get(real)
        if cache is None:
            try:
                cache = msgspec.msgpack.decode(self._cache_path(real).read_bytes(), type=_Cache)
            except (OSError, msgspec.MsgspecError):
                cache = None
        if cache is None or cache.generation != generation or cache.workspace != real:
            return _Cache(real, generation, {})
        return cache

    def _remember(self, cache: _Cache, found: Scanned) -> None:
        fresh = _Cache(cache.workspace, cache.generation, found.known)
        with self._known_lock:
            self._known[cache.workspace] = fresh
            self._known.move_to_end(cache.workspace)
            while len(self._known) > _CACHES_IN_MEMORY:
                self._known.popitem(last=False)
        if found.read or len(found.known) != len(cache.known):
            try:
                path = self._cache_path(cache.workspace)
                path.parent.mkdir(exist_ok=True)
                temporary = path.with_suffix(f".{threading.get_ident()}")
                temporary.write_bytes(_encoded(fresh))
                temporary.replace(path)
            except OSError as error:
                _log.info("the next snapshot of %s reads all its files again: %s", cache.workspace, error)

    def _cache_path(self, real: str) -> Path:
        return self._caches / sha256(os.fsencode(real)).hexdigest()[:40]

    def root_of(self, name: bytes) -> bytes:
        """The tree of a snapshot's files; blocks. Raises MissingObject or DamagedPack."""
        return parse_tree(self.store.read(name, "tree"))[FILES].name

    def not_covered(self, name: bytes) -> list[NotCovered]:
        """Return the paths that a snapshot doesn't cover; blocks."""
        blob = parse_tree(self.store.read(name, "tree"))[NOT_COVERED].name
        return msgspec.json.decode(self.store.read(blob, "blob"), type=list[NotCovered])

    def left_out(self, name: bytes) -> LeftOut:
        """Return the paths that a snapshot doesn't cover, for lookups. Blocks."""
        listed = self.not_covered(name)
        return LeftOut(frozenset(one.path.rstrip("/") for one in listed), len(listed) < NOT_COVERED_MAX)

    def tree(self, name: bytes) -> Tree:
        """A stored folder; blocks."""
        return {} if name == EMPTY_TREE else parse_tree(self.store.read(name, "tree"))

    def lookup(self, root: bytes, path: bytes) -> Entry | None:
        """Return a tree's entry at a path; blocks."""
        entry: Entry | None = Entry(FOLDER_MODE, root)
        for part in path.split(b"/"):
            if entry is None or not entry.is_folder:
                return None
            entry = self.tree(entry.name).get(part)
        return entry

    def keep_blob(self, data: bytes, place: SnapshotKey) -> bytes:
        """Store data under a ref; blocks. Returns its name."""
        name = object_name("blob", data)
        with self.store.using():
            with self.store.batch() as batch:
                batch.add("blob", data, name=name)
            self.store.keep(place.session_id, place.run_id, label=place.label, name=name)
        return name

    async def forget(self, session_id: str) -> None:
        """Purge the snapshots of a session; what other sessions also have stays for them."""
        await offload(lambda: self.store.drop_session(session_id))

    async def collect(self, *, keep_after_ns: int) -> bool:
        """Remove what is too old or belongs to no session; False if that has to wait."""
        return await offload(lambda: self._collect(keep_after_ns))

    def _collect(self, keep_after_ns: int) -> bool:
        if not self.store.root.exists():
            return True
        self.store.drop_older(keep_after_ns)
        return self.store.collect() is not None


def _encoded(cache: _Cache) -> bytes:
    try:
        return msgspec.msgpack.encode(cache)
    except UnicodeEncodeError:
        # Files whose names are no UTF-8 are read again by the next process.
        known = {path: one for path, one in cache.known.items() if path.isascii() or _is_text(path)}
        workspace = cache.workspace if _is_text(cache.workspace) else ""
        return msgspec.msgpack.encode(_Cache(workspace, cache.generation, known))


def _is_text(path: str) -> bool:
    return not any("\udc80" <= char <= "\udcff" for char in path)


def _put(batch: Batch, kind: Kind, data: bytes, name: bytes) -> None:
    batch.add(kind, data, name=name)


def _wrap(found: Scanned, batch: Batch) -> bytes:
    """Store the list of what is not covered, and the tree that holds it and the files."""
    listed = msgspec.json.encode(
        [replace(one, path=shown_path(os.fsencode(one.path))) for one in found.not_covered]
    )
    blob = object_name("blob", listed)
    batch.add("blob", listed, name=blob)
    data = tree_data(_entries(found.root, blob))
    name = object_name("tree", data)
    batch.add("tree", data, name=name)
    return name


def _entries(files: bytes, not_covered: bytes) -> Iterator[tuple[bytes, Entry]]:
    yield FILES, Entry(FOLDER_MODE, files)
    yield NOT_COVERED, Entry(_REGULAR, not_covered)


@asynccontextmanager
async def open_snapshots(context: "FeatureContext") -> AsyncGenerator[Snapshots | None]:
    """The snapshots of the data directory; None if undo is off."""
    from holdfast.host.tools import kept_out_of_tools  # the host imports the agent, and that this module

    settings = context.settings
    undo = settings.undo
    if not undo.enabled:
        yield None
        return
    limits = ScanLimits(
        seconds=undo.seconds_max,
        files=undo.files_max,
        file_bytes=undo.file_bytes_max,
        total_bytes=undo.total_bytes_max,
    )
    kept_out = await asyncio.to_thread(kept_out_of_tools, settings, context.config)
    folder, days = settings.data_dir / "snapshots", undo.keep_days
    snapshots = Snapshots(folder, limits=limits, kept_out=kept_out, kept_s=days * 86_400.0)
    try:
        yield snapshots
    finally:
        await asyncio.to_thread(snapshots.store.close)


def upkeep(deps: "RouteDeps") -> Upkeep | None:
    """Return the upkeep of the snapshots; None if undo is off."""
    snapshots = deps.agent.features.get("undo")
    if snapshots is None:
        return None
    kept = _SnapshotUpkeep(deps, snapshots)
    return Upkeep(kept.forget, snapshots.store.has_session, kept.drop_purged, kept.collect)


class _SnapshotUpkeep:
    def __init__(self, deps: "RouteDeps", snapshots: Snapshots) -> None:
        self._deps = deps
        self._snapshots = snapshots
        self._collect_at_s = 0.0

    async def forget(self, session_id: str) -> None:
        await self._snapshots.forget(session_id)
        self._collect_at_s = 0.0

    async def drop_purged(self) -> None:
        """Drop the snapshots of sessions that were purged while this server was away."""
        objects, store = self._snapshots.store, self._deps.store
        try:
            for mark, run_ids in (await offload(objects.kept_runs)).items():
                known = [run_id for run_id in run_ids if await store.run(run_id) is not None]
                if not known:
                    await offload(lambda mark=mark: objects.drop_marked(mark))
                    self._collect_at_s = 0.0
        except (JournalError, OSError) as error:
            _log.warning("snapshots of purged sessions are looked for at the next start: %s", error)

    async def collect(self) -> float:
        """Delete snapshots that are too old, and objects of forgotten ones; how long until the next time."""
        now_s = self._deps.clock.monotonic_s()
        if now_s >= self._collect_at_s:
            keep_after_ms = self._deps.clock.now_ms() - int(1000 * self._snapshots.kept_s)
            if not await self._snapshots.collect(keep_after_ns=keep_after_ms * 1_000_000):
                return _BUSY_S
            self._collect_at_s = now_s + _COLLECT_S
        return self._collect_at_s - now_s
