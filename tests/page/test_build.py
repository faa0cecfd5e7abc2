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
# Each built style sheet, and the source that it begins with.
SHEETS = {"main": "page", "panels": "panels", "parts": "parts", "maths": "maths"}


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


def first_load() -> set[str]:
    """The names of the files that the page's own file brings with it, and that file itself."""
    index = (BUILT / "index.html").read_text()
    return {"index.html", *re.findall(r'(?:src|href)="/([^"]+)"', index)}


@pytest.mark.usefixtures("_built")
def test_the_first_load_is_less_than_80_kb_of_scripts_and_styles_in_files_of_its_own() -> None:
    named = first_load()
    assert sum((BUILT / f"{name}.gz").stat().st_size for name in named) < ZIPPED_BYTES_MAX
    assert {Path(name).suffix for name in named} == {".html", ".js", ".css", ".svg"}
    index = (BUILT / "index.html").read_text()
    assert not re.search(r"<style|<script(?![^>]*src=)|\son\w+=|\sstyle=|https?://", index)


@pytest.mark.usefixtures("_built")
def test_the_first_load_names_every_script_that_one_of_its_scripts_imports_at_once() -> None:
    """A script that is missing there would be fetched after the others, and would not be counted."""
    named = first_load()
    for name in named:
        if name.endswith(".js"):
            at_once = re.findall(r'(?:from|import)\s*"\./([^"]+)"', (BUILT / name).read_text())
            assert {f"assets/{other}" for other in at_once} <= named


def imported(sheet: Path) -> Iterator[Path]:
    """The style sheet and all that it imports."""
    yield sheet
    for name in re.findall(r'@import "(\./[^"]+)"', sheet.read_text()):
        yield from imported(sheet.parent / name)


@pytest.mark.usefixtures("_built")
def test_every_style_sheet_is_part_of_one_built_sheet() -> None:
    """A file that nothing imports would be a part of the page without its looks."""
    styles = ROOT / "frontend" / "src" / "styles"
    used = {name: list(imported(styles / f"{sheet}.css")) for name, sheet in SHEETS.items()}
    assert sorted(path for paths in used.values() for path in paths) == sorted(styles.glob("*.css"))
    for name, sheets in used.items():
        (built,) = (BUILT / "assets").glob(f"{name}-*.css")
        text = re.sub(r"\s", "", built.read_text())
        for sheet in sheets:
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
    (tree / "third-party").mkdir()
    (tree / "third-party" / "page.cdx.json").write_text("{}")
    assert await build(tree) == (0, "")


async def test_a_build_that_fails_says_what_to_do_and_leaves_no_half_page(tree: Path) -> None:
    frontend = tree / "frontend"
    (frontend / "src").mkdir(parents=True)
    (frontend / "package.json").write_text('{"name": "x", "version": "1.0.0"}')
    lock = {"name": "x", "version": "1.0.0", "lockfileVersion": 3, "packages": {"": {"name": "x"}}}
    (frontend / "package-lock.json").write_text(json.dumps(lock))
    for name in ("index.html", "icon.svg", "third_party.ts"):
        (frontend / name).write_text("")
    (frontend / "build.ts").write_text("throw new Error('the page is broken');")
    code, said = await build(tree)
    assert code == 1
    assert "the page is broken" in said
    assert "HOLDFAST_PAGE=skip" in said
    assert not (tree / "src" / "holdfast" / "web").exists()
