"""Nothing in the corpus gets out of the sandbox, with each backend and as two users."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.escapes import ESCAPES
from sandbox.stage import NOBODY, backend_named, can_be, stage

USERS = [uid for uid in sorted({os.getuid(), NOBODY}) if can_be(uid)]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for a backend, which another user can reach too: pytest's own belong to one user alone."""
    with tempfile.TemporaryDirectory(prefix="holdfast-backend-") as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.parametrize("uid", USERS)
def test_nothing_gets_out_of_bubblewrap(uid: int, folder: Path) -> None:
    backend = backend_named("bubblewrap", folder, uid=uid)
    with stage(uid) as ground:
        assert ground.escaped(backend, ESCAPES) == []


@pytest.mark.parametrize("uid", USERS)
def test_out_of_landlock_gets_only_what_it_cannot_hold(uid: int, folder: Path) -> None:
    backend = backend_named("landlock", folder, uid=uid)
    held = [escape for escape in ESCAPES if escape.landlock == "holds"]
    with stage(uid) as ground:
        assert ground.escaped(backend, held) == []


def test_the_same_ways_lead_out_where_there_is_no_sandbox() -> None:
    tried = [escape for escape in ESCAPES if escape.works_open]
    with stage(os.getuid()) as ground:
        missing = {escape.name for escape in tried} - {*ground.escaped(None, tried)}
    assert missing == set()
    assert len(ESCAPES) >= 60
