"""The build of the page: small, strict, quick when nothing changed, and clear when it fails."""

import asyncio
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.server.page import BUILT

ROOT = Path(__file__).parents[2]
ZIPPED_BYTES_MAX = 80_000


async def build(folder: Path) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "hatch_build.py"),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree with its build program and nothing else."""
    shutil.copy(ROOT / "hatch_build.py", tmp_path)
    (tmp_path / "src" / "holdfast").mkdir(parents=True)
    return tmp_path


@pytest.mark.usefixtures("_built")
def test_the_page_is_less_than_80_kb_of_scripts_and_styles_in_files_of_its_own() -> None:
    files = [path for path in BUILT.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files if path.suffix == ".gz") < ZIPPED_BYTES_MAX
    index = (BUILT / "index.html").read_text()
    named = set(re.findall(r'(?:src|href)="/([^"]+)"', index))
    assert named <= {path.relative_to(BUILT).as_posix() for path in files}
    assert {Path(name).suffix for name in named} == {".js", ".css", ".svg"}
    assert not re.search(r"<style|<script(?![^>]*src=)|\son\w+=|\sstyle=|https?://", index)


def imported(sheet: Path) -> Iterator[Path]:
    """The style sheet and all that it imports."""
    yield sheet
    for name in re.findall(r'@import "([^"]+)"', sheet.read_text()):
        yield from imported(sheet.parent / name)


@pytest.mark.usefixtures("_built")
def test_every_style_sheet_is_part_of_the_built_one_once() -> None:
    """A file that nothing imports would be a part of the page without its looks."""
    styles = ROOT / "frontend" / "src" / "styles"
    used = list(imported(styles / "page.css"))
    assert sorted(used) == sorted(styles.glob("*.css"))
    (built,) = (BUILT / "assets").glob("main-*.css")
    text = re.sub(r"\s", "", built.read_text())
    for sheet in used:
        rules = re.sub(
            r"/\*.*?\*/|@(import|media|supports)[^;{]*[;{]", "", sheet.read_text(), flags=re.DOTALL
        )
        classes = set(re.findall(r"\.[a-z][\w-]+(?=[^{};]*\{)", rules))
        assert all(name in text for name in classes), sheet.name


@pytest.mark.usefixtures("_built")
async def test_a_build_of_unchanged_sources_touches_nothing() -> None:
    before = (BUILT / "index.html").stat().st_mtime_ns
    assert await build(ROOT) == (0, "")
    assert (BUILT / "index.html").stat().st_mtime_ns == before


async def test_a_tree_that_holds_the_built_page_needs_no_node(tree: Path) -> None:
    """An sdist: the page is there, its sources are not."""
    code, said = await build(tree)
    assert code == 1
    assert "neither frontend/ nor a built page" in said
    (tree / "src" / "holdfast" / "web").mkdir()
    (tree / "src" / "holdfast" / "web" / "index.html").write_text("built")
    assert await build(tree) == (0, "")


async def test_a_build_that_fails_says_what_to_do_and_leaves_no_half_page(tree: Path) -> None:
    frontend = tree / "frontend"
    (frontend / "src").mkdir(parents=True)
    (frontend / "package.json").write_text('{"name": "x", "version": "1.0.0"}')
    lock = {"name": "x", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "x"}}}
    (frontend / "package-lock.json").write_text(json.dumps(lock))
    for name in ("index.html", "icon.svg"):
        (frontend / name).write_text("")
    (frontend / "build.ts").write_text("throw new Error('the page is broken');")
    code, said = await build(tree)
    assert code == 1
    assert "the page is broken" in said
    assert "HOLDFAST_PAGE=skip" in said
    assert not (tree / "src" / "holdfast" / "web").exists()
