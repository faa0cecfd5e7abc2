"""Paths: whatever their spelling, they end inside the workspace or are refused."""

import asyncio
import fcntl
import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.tools.built_in import built_in_tools
from holdfast.tools.files.contents import FilesSeen, read_whole, replace_whole
from holdfast.tools.files.edits import WriteFile
from holdfast.tools.files.read_file import ReadFile
from holdfast.tools.files.workspace import PathRefused, Workspace
from holdfast.tools.shell.background import Background
from tools.calls import ENVIRONMENT, Call, descriptors

SECRET = "outside"  # noqa: S105 - what must not be seen


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    (root / "folder" / "deep").mkdir(parents=True)
    (root / "file").write_text("inside")
    (root / "folder" / "deep" / "file").write_text("deep inside")
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "workspace-other").mkdir()
    (tmp_path / "workspace-other" / "secret").write_text(SECRET)
    (root / "link to secret").symlink_to(tmp_path / "secret")
    (root / "link out").symlink_to(tmp_path)
    (root / "folder" / "link up").symlink_to("../..")
    (root / "folder" / "link in").symlink_to("../file")
    (root / "absolute in").symlink_to(root / "folder" / "deep")
    (root / "loop").symlink_to("loop")
    (root / "proc").symlink_to("/proc/self/root")
    (root / "dangling").symlink_to("folder/not yet")
    return root


def read(root: Path, path: str) -> str:
    with Workspace(root).spot(path) as spot:
        return read_whole(spot)[0].decode()


def test_a_path_inside_is_found(root: Path) -> None:
    texts = {
        "file": "inside",
        "./folder//../file": "inside",
        "folder/link in": "inside",
        "absolute in/file": "deep inside",
        "absolute in/../deep/file": "deep inside",
        "{root}/file": "inside",
        "{root}/folder/../file": "inside",
    }
    assert {path: read(root, path.format(root=root)) for path in texts} == texts


def test_any_other_path_is_refused_and_nothing_stays_open(root: Path) -> None:
    before = descriptors()
    for path in (
        "../secret",
        "folder/../../secret",
        "link to secret",
        "link out/secret",
        "folder/link up/secret",
        "{root}/../secret",
        "{root}-other/secret",
        "/etc/passwd",
        "proc/etc/passwd",
        "/proc/self/root/etc/passwd",
        "loop",
        "file/..",
        "file/x",
        "absolute in/../../../secret",
        "no such",
        "no/such",
        "",
        ".",
        "folder",
        "a\0b",
        "x" * 5000,
        "x" * 300,
        "\ud800",
    ):
        with pytest.raises(PathRefused):
            pytest.fail(f"{path!r} shows {read(root, path.format(root=root))!r}")
        assert descriptors() == before, path


def test_nothing_is_written_outside(root: Path, tmp_path: Path) -> None:
    names = sorted(tmp_path.iterdir())
    for path in ("../new", "link out/new", "link to secret", "folder/link up/new", "/etc/new", "proc/x"):
        with pytest.raises(PathRefused), Workspace(root).spot_with_folders(path) as spot:
            pytest.fail(f"{path!r} can be written: {replace_whole(spot, b'changed', was=None)}")
        assert (tmp_path / "secret").read_text() == SECRET, path
        assert sorted(tmp_path.iterdir()) == names, path


def test_a_dangling_link_inside_is_written_through(root: Path) -> None:
    with Workspace(root).spot("dangling") as spot:
        replace_whole(spot, b"made", was=None)
    assert (root / "folder" / "not yet").read_text() == "made"
    assert (root / "dangling").is_symlink()


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


def make_device(path: Path) -> None:
    os.mknod(path, 0o20666, os.makedev(1, 5))


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (os.mkfifo, "a FIFO"),
        (make_socket, "a socket"),
        (make_device, "a device"),
        (Path.mkdir, "a folder"),
    ],
)
async def test_what_is_no_file_is_refused_and_does_not_hang(
    call: Call, make: Callable[[Path], None], kind: str
) -> None:
    try:
        make(call.workspace / "odd")
    except PermissionError:
        pytest.skip("devices are made by root")
    reading = await ReadFile(FilesSeen()).run({"path": "odd"}, call)
    writing = await WriteFile(FilesSeen()).run({"path": "odd", "content": "x"}, call)
    for result in (reading, writing):
        assert not result.ok
        assert f"odd is {kind}, not a file" in result.text


async def test_what_is_kept_out_is_not_even_opened_so_that_its_locks_hold(
    call: Call, background: Background
) -> None:
    """P1: to close any descriptor of a database is to lose every lock of this process on it."""
    kept, link = call.workspace / "kept", call.workspace / "link"
    kept.mkdir()
    (kept / "db").write_text("a")
    link.symlink_to("kept")
    args = {"read_file": {}, "write_file": {"content": "b"}, "edit_file": {"old_text": "a", "new_text": "b"}}
    box = await asyncio.to_thread(
        lambda: built_in_tools(ENVIRONMENT, background=background, kept_out=(str(kept),))
    )
    with (kept / "db").open("r+b") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        for tool in box:
            for path in ("kept/db", "link/db", "kept/new/file"):
                given = {"path": path, **args.get(tool.spec.name, {})}
                if tool.spec.name in args:
                    action = await asyncio.to_thread(tool.action, given, workspace=call.workspace)
                    assert action.paths == (str(call.workspace / path.replace("link", "kept")),)
                    assert "belongs to Holdfast, so tools" in (await tool.run(given, call)).text
        probe = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-S", "-c", probe, kept / "db", stderr=asyncio.subprocess.PIPE
        )
        assert b"BlockingIOError" in (await child.communicate())[1]
    assert [one.name for one in kept.iterdir()] == ["db"]


def test_what_is_kept_out_is_kept_out_also_where_the_workspace_is_the_whole_disk(tmp_path: Path) -> None:
    kept = tmp_path.resolve()
    with (
        pytest.raises(PathRefused, match="belongs to Holdfast"),
        Workspace(Path("/"), kept_out=(str(kept),)).spot(f"{kept}/db"),
    ):
        pass


def test_a_link_that_is_swapped_all_the_time_never_leads_out(root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text(SECRET)
    real, place, link = root / "real", root / "place", root / "link"
    real.mkdir()
    (real / "file").write_text("inside")
    link.symlink_to(tmp_path / "outside")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            real.rename(place)
            place.rename(real)
            link.rename(place)
            place.rename(link)

    swapper = threading.Thread(target=swap)
    swapper.start()
    outcomes: set[str] = set()
    try:
        for _ in range(2000):
            try:
                outcomes.add(read(root, "place/file"))
            except PathRefused:
                outcomes.add("refused")
            try:
                with Workspace(root).spot("place/written") as spot:
                    replace_whole(spot, b"x", was=None)
            except PathRefused:
                pass
    finally:
        over.set()
        swapper.join()
    assert outcomes <= {"inside", "refused"}
    assert [one.name for one in (tmp_path / "outside").iterdir()] == ["file"]


def test_a_file_swapped_for_a_link_after_the_look_is_not_followed(root: Path, tmp_path: Path) -> None:
    with Workspace(root).spot("file") as spot:
        (root / "file").unlink()
        (root / "file").symlink_to(tmp_path / "secret")
        with pytest.raises(PathRefused):
            read_whole(spot)
        with pytest.raises(PathRefused):
            replace_whole(spot, b"x", was=None)
    assert (tmp_path / "secret").read_text() == SECRET


def test_a_person_is_shown_where_a_path_really_leads(root: Path) -> None:
    workspace = Workspace(root)
    assert workspace.resolved("absolute in/file") == str(root / "folder" / "deep" / "file")
    assert workspace.resolved("") == str(root)
    assert workspace.resolved("../x") == str(root.parent / "x")
    assert workspace.resolved("/etc/passwd") == "/etc/passwd"
    # Also behind a folder that the writing would make, where a link still leads where it leads.
    assert workspace.resolved("new/../absolute in/../x") == str(root / "folder" / "x")
    assert workspace.resolved("new/../link out/x") == str(root.parent / "x")
    assert workspace.resolved("no\0path") == f"{root}/no\0path"


def test_what_is_written_is_what_was_shown_also_where_a_folder_is_new(root: Path) -> None:
    """P8: the folder on the way is made only by the writing."""
    path = "new/../absolute in/../made"
    shown = Workspace(root).resolved(path)
    with Workspace(root).spot_with_folders(path) as spot:
        replace_whole(spot, b"x", was=None)
    assert Path(shown).read_text() == "x"
