"""Snapshots: every file as it is, read again only if it may have changed, and nothing that must stay out."""

import asyncio
import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from holdfast.features.undo.object_store import ObjectStore
from holdfast.features.undo.packs import DamagedPack, Entry, Kind
from holdfast.features.undo.scan import ScanLimits, Scanned, ScanStopped, covers, scan
from holdfast.features.undo.snapshots import NoSnapshot, Snapshot, SnapshotKey, Snapshots

HERE = SnapshotKey("s", "run_1", "0-before")
LONG_AGO_NS = 1_600_000_000_000_000_000


def aged(root: Path) -> None:
    """Let every file look as if it had settled long ago; its ctime can't be set, so this waits for that."""
    newest = max((path.lstat().st_ctime_ns for path in root.rglob("*")), default=0)
    while time.time_ns() < newest + 150_000_000:
        threading.Event().wait(0.01)


def git(store: Path, *words: str) -> str:
    """What the real git says about the repository, without any configuration."""
    environment = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "PATH": os.defpath}
    done = subprocess.run(
        ["git", "--git-dir", str(store), *words], env=environment, capture_output=True, check=True
    )
    return done.stdout.decode("utf-8", "surrogateescape")


class Stored:
    """A workspace and where it is stored."""

    def __init__(self, tmp_path: Path) -> None:
        self.workspace = tmp_path / "workspace"
        self.workspace.mkdir()
        self.store = ObjectStore(tmp_path / "store")
        self.last = Scanned()

    def scan(self, **limits: float) -> Scanned:
        with self.store.batch() as batch:
            self.last = scan(
                str(self.workspace),
                put=lambda kind, data, name: batch.add(kind, data, name=name),
                known=self.last.known,
                limits=ScanLimits(**limits),  # pyright: ignore[reportArgumentType]
            )
        return self.last

    def paths(self) -> list[str]:
        """The files of the newest scan, as git lists them."""
        listed = git(self.store.root, "ls-tree", "-r", "-z", "--name-only", self.last.root.hex())
        return [name for name in listed.split("\0") if name]


@pytest.fixture
def stored(tmp_path: Path) -> Stored:
    return Stored(tmp_path)


def test_git_reads_what_is_stored_and_finds_nothing_wrong(stored: Stored) -> None:
    ws = stored.workspace
    (ws / "sub").mkdir()
    (ws / "sub.txt").write_text("sorts before sub/")
    (ws / "sub" / "file").write_text("inside")
    (ws / "run.sh").write_text("#!/bin/sh\n")
    (ws / "run.sh").chmod(0o755)
    (ws / "link").symlink_to("sub/file")
    (ws / os.fsdecode(b"\xff\nname")).write_bytes(bytes(range(256)) * 5000)
    (ws / "empty").touch()
    root = stored.scan().root
    stored.store.keep("s", "run_1", label="0-before", name=root)
    git(stored.store.root, "fsck", "--full", "--strict")
    assert sorted(stored.paths()) == sorted(
        ["empty", "link", "run.sh", "sub.txt", "sub/file", os.fsdecode(b"\xff\nname")]
    )
    assert git(stored.store.root, "cat-file", "blob", f"{root.hex()}:sub/file") == "inside"


def test_what_is_left_out_is_listed_with_the_reason(stored: Stored) -> None:
    ws = stored.workspace
    (ws / ".gitignore").write_text("*.log\n/build/\n")
    (ws / "a.log").write_text("x")
    (ws / "build").mkdir()
    (ws / "build" / "out").write_text("x")
    (ws / ".env").write_text("KEY=1")
    (ws / "large").write_bytes(b"x" * 2_000)
    os.mkfifo(ws / "fifo")
    nested = ws / "vendor" / "lib"
    (nested / ".git").mkdir(parents=True)
    (nested / ".git" / "config").write_text("[core]\n\tfsmonitor = touch /tmp/never\n")
    (nested / "code.py").write_text("pass")
    found = stored.scan(file_bytes=1_000)
    assert {one.path: one.why for one in found.not_covered} == {
        "a.log": "ignored",
        "build/": "ignored",
        ".env": "secret",
        "large": "too large",
        "fifo": "not a file",
        "vendor/lib/.git/": "git",
    }
    assert stored.paths() == [".gitignore", "vendor/lib/code.py"]


def test_caches_of_tools_are_no_changes_unless_the_repository_keeps_them(stored: Stored) -> None:
    """P13: they're listed as not covered, and nothing else is taken for one."""
    ws = stored.workspace
    for path in ("pkg/a.py", "pkg/__pycache__/a.pyc", ".mypy_cache/x.json", "cache/x", "pycache"):
        (ws / path).parent.mkdir(parents=True, exist_ok=True)
        (ws / path).write_text(path)
    found = stored.scan()
    assert {one.path: one.why for one in found.not_covered} == {
        "pkg/__pycache__/": "ignored",
        ".mypy_cache/": "ignored",
    }
    assert stored.paths() == ["cache/x", "pkg/a.py", "pycache"]
    before = found.root
    (ws / "pkg/__pycache__/b.pyc").write_text("b")
    assert stored.scan().root == before
    (ws / ".gitignore").write_text("!__pycache__/\n")
    stored.scan()
    assert "pkg/__pycache__/b.pyc" in stored.paths()


def test_only_what_may_have_changed_is_read_again(stored: Stored) -> None:
    """The same with 20,000 files is in bench/undo.py."""
    ws = stored.workspace
    for folder in range(10):
        (ws / f"{folder}").mkdir()
        (ws / f"{folder}" / "0").write_text(f"in {folder}")
        for number in range(1, 100):
            os.link(ws / f"{folder}" / "0", ws / f"{folder}" / f"{number}")
    aged(ws)
    first = stored.scan()
    assert (first.files, first.read) == (1_000, 1_000)
    second = stored.scan()
    assert (second.files, second.read, second.root) == (1_000, 0, first.root)
    (ws / "7" / "new").write_text("new")
    assert stored.scan().read == 1
    assert stored.last.root != first.root


def test_a_change_within_the_same_moment_and_size_is_seen(stored: Stored) -> None:
    file = stored.workspace / "file"
    file.write_text("one")
    os.utime(file, ns=(LONG_AGO_NS, LONG_AGO_NS))
    first = stored.scan().root
    file.write_text("two")
    os.utime(file, ns=(LONG_AGO_NS, LONG_AGO_NS))
    assert stored.scan().root != first


def test_a_workspace_cannot_make_a_scan_run_or_wait_for_anything(stored: Stored) -> None:
    ws, witness = stored.workspace, stored.workspace.parent / "witness"
    git_dir = ws / ".git"
    (git_dir / "hooks").mkdir(parents=True)
    (git_dir / "info").mkdir()
    program = f"touch {witness}"
    (git_dir / "config").write_text(
        f'[core]\n\tfsmonitor = {program}\n\thooksPath = hooks\n[filter "x"]\n\tclean = {program}; cat\n'
        f"\tsmudge = {program}\n\tprocess = {program}\n[include]\n\tpath = /dev/zero\n"
    )
    hook = git_dir / "hooks" / "post-index-change"
    hook.write_text(f"#!/bin/sh\n{program}\n")
    hook.chmod(0o755)
    (ws / ".gitattributes").write_text("* filter=x text=auto eol=crlf ident\n")
    (ws / "text").write_bytes(b"$Id$\r\nmixed\n")
    os.mkfifo(git_dir / "info" / "exclude")
    (ws / "deep").mkdir()
    os.mkfifo(ws / "deep" / ".gitignore")
    (ws / "linked").mkdir()
    (ws / "linked" / ".gitignore").symlink_to("/dev/zero")
    (ws / "slow").mkdir()
    (ws / "slow" / ".gitignore").write_text("*a" * 60 + "b\n" + "**/" * 30 + "x\n" + "a" * 250)
    (ws / "slow" / ("a" * 250)).write_text("x")
    root = stored.scan().root
    assert not witness.exists()
    assert git(stored.store.root, "cat-file", "blob", f"{root.hex()}:text") == "$Id$\r\nmixed\n"


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"files": 1}, "more than 1 files"),
        ({"total_bytes": 5}, "larger than"),
        ({"seconds": 0.0}, "longer than"),
    ],
)
def test_a_scan_beyond_a_limit_stores_nothing(stored: Stored, limits: dict[str, float], why: str) -> None:
    (stored.workspace / "a").write_text("abcdef")
    (stored.workspace / "b").write_text("abcdef")
    with pytest.raises(ScanStopped, match=why):
        stored.scan(**limits)
    assert not list((stored.store.root / "objects" / "pack").iterdir())


def test_what_no_session_keeps_is_removed_and_the_rest_stays(stored: Stored) -> None:
    ws, store = stored.workspace, stored.store
    (ws / "shared").write_text("shared")
    (ws / "old").write_text("only in the old one")
    old = stored.scan().root
    store.keep("purged", "run_1", label="0-before", name=old)
    (ws / "old").unlink()
    (ws / "new").write_text("only in the new one")
    new = stored.scan().root
    store.keep("kept", "run_2", label="0-before", name=new)
    with store.using():
        assert store.collect() is None
    assert store.collect() == 0
    before = store.generation
    assert store.drop_session("purged")
    assert store.collect() == 2  # the blob and the tree
    assert store.generation != before
    git(store.root, "fsck", "--full")
    assert git(store.root, "ls-tree", "--name-only", new.hex()).split() == ["new", "shared"]
    everything = b"".join(path.read_bytes() for path in (store.root / "objects" / "pack").iterdir())
    assert old not in everything
    assert store.drop_older(time.time_ns() + 10**12) == 1
    assert store.collect() == 3
    assert not store.drop_session("purged")


def test_a_damaged_pack_is_told_from_a_right_one(stored: Stored) -> None:
    (stored.workspace / "file").write_text("x" * 100)
    root = stored.scan().root
    (pack,) = (stored.store.root / "objects" / "pack").glob("*.pack")
    stored.store.close()
    data = bytearray(pack.read_bytes())
    data[14:-20] = bytes(len(data) - 34)
    pack.write_bytes(data)
    with pytest.raises(DamagedPack):
        stored.store.read(root, "tree")


def test_many_packs_become_one(stored: Stored) -> None:
    for number in range(41):
        (stored.workspace / "file").write_text(f"{number}")
        stored.store.keep("s", "run_1", label=f"{number}", name=stored.scan().root)
    assert len(list((stored.store.root / "objects" / "pack").glob("*.pack"))) == 1
    assert stored.store.collect() == 0
    git(stored.store.root, "fsck", "--full")


async def test_a_snapshot_is_cheap_in_the_next_process_and_exact_after_a_purge(tmp_path: Path) -> None:
    ws = tmp_path / "ws"
    await asyncio.to_thread(ws.mkdir)
    await asyncio.to_thread((ws / "file").write_text, "text")
    await asyncio.to_thread(aged, ws)
    first = await Snapshots(tmp_path / "data").take(ws, HERE)
    assert isinstance(first, Snapshot)
    later = Snapshots(tmp_path / "data")
    assert await later.take(ws, SnapshotKey("other", "run_2", "0-before")) == first
    await later.forget("s")
    await later.forget("other")
    assert await later.collect(keep_after_ns=0)
    again = await later.take(ws, HERE)
    assert again == first
    found = await asyncio.to_thread(later.lookup, first.root, b"file")
    assert isinstance(found, Entry)
    assert await asyncio.to_thread(later.store.read, found.name, "blob") == b"text"


async def test_a_stop_ends_a_snapshot_at_once_and_nothing_of_it_is_kept(tmp_path: Path) -> None:
    ws = tmp_path / "ws"

    def fill() -> None:
        for folder in range(50):
            (ws / f"{folder}").mkdir(parents=True)
            for number in range(20):
                (ws / f"{folder}" / f"{number}").write_text(f"{folder} {number}")

    await asyncio.to_thread(fill)
    snapshots = Snapshots(tmp_path / "data")
    taking = asyncio.create_task(snapshots.take(ws, HERE))
    for _ in range(5):
        await asyncio.sleep(0)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    kept = await asyncio.to_thread(lambda: [*tmp_path.rglob("*.pack"), *tmp_path.rglob("*-before")])
    assert kept == []
    assert isinstance(await snapshots.take(ws, HERE), Snapshot)


async def test_a_workspace_that_is_too_large_is_counted_before_it_is_read_and_not_again_at_once(
    tmp_path: Path,
) -> None:
    ws = tmp_path / "ws"
    await asyncio.to_thread(ws.mkdir)
    await asyncio.to_thread((ws / "a").write_text, "a")
    await asyncio.to_thread(os.mkfifo, ws / "b")
    await asyncio.to_thread((ws / "c").write_text, "c")
    snapshots = Snapshots(tmp_path / "data", limits=ScanLimits(files=1))
    refused = NoSnapshot("the workspace has more than 1 files")
    assert await snapshots.take(ws, HERE) == refused
    await asyncio.to_thread((ws / "c").unlink)
    assert await snapshots.take(ws, HERE) == refused
    assert isinstance(await Snapshots(tmp_path / "data").take(ws, HERE), Snapshot)


async def test_a_workspace_that_is_gone_has_no_snapshot_and_says_so(tmp_path: Path) -> None:
    taken = await Snapshots(tmp_path / "data").take(tmp_path / "none", HERE)
    assert taken == NoSnapshot("the files could not be stored: No such file or directory")


def _dropped(_kind: Kind, _data: bytes, _name: bytes) -> None:
    """Store nothing."""


def test_a_file_counts_as_covered_exactly_if_a_scan_stores_it(tmp_path: Path) -> None:
    """P13: edits without a question are limited to these, whether or not the file exists yet."""
    names = (
        "a.py", "sub/b.py", "sub/deep/c.py", ".env", "sub/server.key", "build/out.js", "sub/keep.log",
        "x.log",
        "large.bin", ".git/config", "__pycache__/a.pyc", "sub/private/d.py",
    )  # fmt: skip
    work = tmp_path / "work"
    limits = ScanLimits(file_bytes=100)
    rules = {".gitignore": "*.log\nbuild/\n", "sub/.gitignore": "!keep.log\nprivate/\n"}
    known: dict[str, bool] = {name: covers(str(work), str(work / name), limits=limits) for name in names}
    assert set(known.values()) == {False}, "a workspace that doesn't exist has no snapshot"
    for name, text in rules.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    before = {name: covers(str(work), str(work / name), limits=limits) for name in names}
    for name in names:
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("x" * (200 if name == "large.bin" else 1))
    (work / "link").symlink_to("/etc")
    found = scan(str(work), put=_dropped, known={}, limits=limits)
    left_out = tuple(one.path for one in found.not_covered)
    for name in names:
        is_stored = not any(
            name == path or (path.endswith("/") and name.startswith(path)) for path in left_out
        )
        assert covers(str(work), str(work / name), limits=limits) is is_stored, name
        assert before[name] is (is_stored or name == "large.bin"), name
    assert sum(before.values()) == 5
    for path in ("link", "link/hosts", "sub", "", "../elsewhere"):
        assert not covers(str(work), os.path.normpath(work / path), limits=limits), path
