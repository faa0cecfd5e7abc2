"""Putting files back: by a plan, without following links, and not at all where it could not be completed."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from holdfast.features.undo.packs import object_name
from holdfast.features.undo.restore import (
    STAGING,
    CannotStage,
    FileStep,
    Plan,
    Restorer,
    current_states,
    decode_plan,
)

NOBODY = 65_534
NONE = (0, b"")
BLOBS: dict[bytes, bytes] = {}


def file(text: str, mode: int = 0o100644) -> tuple[int, bytes]:
    data = text.encode()
    name = object_name("blob", data)
    BLOBS[name] = data
    return mode, name


def restorer(root: Path, *steps: FileStep, folders: tuple[bytes, ...] = ()) -> Restorer:
    plan = decode_plan(Plan(steps, folders).encoded)
    return Restorer(str(root), plan, undo_id="und_1", blob=BLOBS.__getitem__, reach=lambda _: None)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@contextmanager
def without_rights() -> Generator[None]:
    """As somebody who may not write everywhere, even if the tests run as root."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_folder_that_cannot_be_written_refuses_the_whole_plan() -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o777)
        (root / "locked").mkdir()
        (root / "locked" / "file").write_text("after")
        (root / "other").write_text("after")
        (root / "locked").chmod(0o555)
        steps = (
            FileStep(b"other", file("after"), file("before")),
            FileStep(b"locked/file", file("after"), file("before")),
        )
        with without_rights(), pytest.raises(CannotStage, match=r"Permission denied \(locked\)"):
            restorer(root, *steps).stage()
        (root / "locked").chmod(0o755)
        assert ((root / "other").read_text(), names(root)) == ("after", ["locked", "other"])


def test_a_file_that_may_not_be_written_is_replaced_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("after")
    (tmp_path / "file").chmod(0o400)
    one = restorer(tmp_path, FileStep(b"file", file("after", 0o100400), file("before", 0o100600)))
    one.stage()
    assert one.apply().left == ()
    assert ((tmp_path / "file").read_text(), (tmp_path / "file").stat().st_mode & 0o777) == ("before", 0o600)


def test_a_file_in_a_third_state_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    one = restorer(tmp_path, FileStep(b"file", file("after"), file("before")))
    one.stage()
    assert one.apply().left == ((b"file", "it has changed in the meantime"),)
    assert names(tmp_path) == ["file"]


def test_a_link_where_the_staging_folder_goes_is_removed_and_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "precious").write_text("precious")
    (root / f"{STAGING}und_1").symlink_to(outside)
    one = restorer(root, FileStep(b"file", NONE, file("before")))
    one.stage()
    one.discard()
    assert (names(root), names(outside)) == ([], ["precious"])


def test_a_folder_that_is_not_empty_and_what_is_no_file_stay(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "new").write_text("after")
    (tmp_path / "made" / "mine").write_text("mine")
    os.mkfifo(tmp_path / "fifo")
    steps = (FileStep(b"made/new", file("after"), NONE), FileStep(b"fifo", NONE, file("before")))
    one = restorer(tmp_path, *steps, folders=(b"made",))
    one.stage()
    assert one.apply().left == ((b"fifo", "it has changed in the meantime"),)
    assert names(tmp_path / "made") == ["mine"]
    assert current_states(str(tmp_path), [b"made", b"fifo/x", b"none"]) == dict.fromkeys(
        [b"made", b"fifo/x", b"none"], NONE
    )
