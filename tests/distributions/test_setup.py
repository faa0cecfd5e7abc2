"""`scripts/setup` makes the virtual environment that the locked requirements ask for, and no more."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.release

ROOT = Path(__file__).parents[2]
UV = ROOT / ".uv" / "bin" / "uv"
# The real uv makes environments; what it would fetch is only written down.
RECORDING = """#!/bin/sh
echo "$*" >> "{log}"
[ "$1" = venv ] || exit 0
exec "{uv}" "$@"
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree as scripts/setup knows it, with a uv that fetches nothing."""
    for name in ("requirements", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("pyproject.toml", "hatch_build.py"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "frontend").mkdir()
    (tmp_path / "frontend" / "package.json").write_text("{}")
    (tmp_path / "src" / "holdfast" / "web").mkdir(parents=True)
    (tmp_path / "src" / "holdfast" / "web" / "index.html").write_text("built")
    (tmp_path / ".uv" / "bin").mkdir(parents=True)
    shutil.copy(ROOT / "requirements" / "uv.txt", tmp_path / ".uv" / "locked.txt")
    recording = tmp_path / ".uv" / "bin" / "uv"
    recording.write_text(RECORDING.format(log=tmp_path / "asked", uv=UV))
    recording.chmod(0o755)
    return tmp_path


async def set_up(tree: Path) -> list[str]:
    """What uv was asked for."""
    process = await asyncio.create_subprocess_exec(
        *("env", "HOLDFAST_PAGE=skip", "scripts/setup", "run"),
        cwd=tree,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 0, said.decode()

    def asked() -> list[str]:
        log = tree / "asked"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        # The editable install would have put the command there.
        (tree / ".venv" / "bin" / "holdfast").touch(mode=0o755)
        return [" ".join(line.split()[:2]) for line in lines]

    return await asyncio.to_thread(asked)


ALL = ["venv --quiet", "pip sync", "pip install"]


@pytest.mark.skipif(not UV.exists(), reason="the tree was not set up by scripts/setup")
async def test_an_environment_is_made_once_and_again_only_for_other_requirements(tree: Path) -> None:
    assert await set_up(tree) == ALL
    assert await set_up(tree) == []
    requirements = tree / "requirements" / "run.txt"
    await asyncio.to_thread(lambda: requirements.write_text(requirements.read_text() + "\n# other\n"))
    assert await set_up(tree) == ALL[1:]


@pytest.mark.skipif(not UV.exists(), reason="the tree was not set up by scripts/setup")
async def test_an_environment_that_was_restored_without_its_python_is_made_anew(tree: Path) -> None:
    """A backup or another machine brings the folder, and the Python that it names is not there."""
    assert await set_up(tree) == ALL
    python = tree / ".venv" / "bin" / "python"

    def lose() -> None:
        python.unlink()
        python.symlink_to(tree / "gone" / "python3")

    await asyncio.to_thread(lose)
    assert await set_up(tree) == ALL
    assert await asyncio.to_thread(os.access, python, os.X_OK)
    assert await set_up(tree) == []
