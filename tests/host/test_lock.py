"""The lock of a data directory, also when other programs remove its file."""

from pathlib import Path

import pytest

from holdfast.host.lock import DirectoryBusy, DirectoryLock, read_holder
from journal.file_faults import FAULTS

URL = "http://127.0.0.1:8642"


@pytest.mark.parametrize("how", ["unlink", "empty", "replace"])
def test_a_lock_that_is_taken_away_is_taken_again(tmp_path: Path, how: str) -> None:
    with DirectoryLock(tmp_path) as lock:
        lock.announce(URL)
        FAULTS[how](tmp_path / "lock", tmp_path)
        lock.keep()
        holder = read_holder(tmp_path)
        assert holder is not None
        assert holder.url == URL
        with pytest.raises(DirectoryBusy, match=URL), DirectoryLock(tmp_path):
            pass
    assert read_holder(tmp_path) is None


def test_whoever_lost_the_directory_does_not_take_it_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with DirectoryLock(tmp_path) as first:
        first.announce(URL)
        (tmp_path / "lock").unlink()
        with DirectoryLock(tmp_path) as second:
            second.announce("http://127.0.0.1:1")
            first.keep()
            first.keep()
            assert caplog.text.count("another Holdfast now uses this directory") == 1
            holder = read_holder(tmp_path)
            assert holder is not None
            assert holder.url == "http://127.0.0.1:1"
