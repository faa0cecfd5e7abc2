"""The rules of the house, as an ordinary test."""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LINES_MAX = 600
FUNCTION_LINES_MAX = 60
FORBIDDEN_NAME_PARTS = {"utils", "helpers", "common", "misc", "manager", "handler"}
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK|NotImplementedError)\b")


def _tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


SOURCES = _tracked("src/*.py")
PYTHON = _tracked("src/*.py", "tests/*.py", "bench/*.py")


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", PYTHON, ids=_name)
def test_a_file_is_short_and_opens_with_a_sentence_that_says_what_it_is_for(path: Path) -> None:
    text = path.read_text("utf-8")
    name = _name(path)
    assert len(text.splitlines()) <= LINES_MAX, f"{name} has more than {LINES_MAX} lines: split it by noun"
    sentence = ast.get_docstring(ast.parse(text)) or ""
    assert sentence[:1].isupper() or sentence[:1] == "`", f"{name} does not say what it is for"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_a_function_fits_on_a_screen(path: Path) -> None:
    for function in _functions(path):
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        assert lines <= FUNCTION_LINES_MAX, f"{_name(path)}: {function.name} has {lines} lines"


@pytest.mark.parametrize("path", PYTHON, ids=_name)
def test_names_say_something(path: Path) -> None:
    words = set(path.stem.split("_"))
    assert not words & FORBIDDEN_NAME_PARTS, f"{_name(path)}: a name that says nothing"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_no_exception_is_swallowed(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ExceptHandler):
            only = node.body[0] if len(node.body) == 1 else None
            wide = node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"}
            assert not (wide and isinstance(only, ast.Pass)), (
                f"{_name(path)}:{node.lineno} swallows everything"
            )


@pytest.mark.parametrize("path", PYTHON, ids=_name)
def test_nothing_is_left_unfinished(path: Path) -> None:
    if path.name == Path(__file__).name:
        return
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        assert not UNFINISHED.search(line), f"{_name(path)}:{number} is unfinished"


@pytest.mark.parametrize("path", _tracked("tests/*.py"), ids=_name)
def test_tests_use_public_names_only(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("holdfast"):
            private = [
                alias.name
                for alias in node.names
                if alias.name.startswith("_") and alias.name != "__version__"
            ]
            assert not private, f"{_name(path)}:{node.lineno} imports {private}"


def test_module_level_containers_do_not_change() -> None:
    """A module-level dict, list or set that grows is state outside the log."""
    for path in SOURCES:
        tree = ast.parse(path.read_text("utf-8"))
        empty = [
            node.lineno
            for node in tree.body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            and isinstance(node.value, ast.Dict | ast.List | ast.Set)
            and not ast.unparse(node.value).strip("{}[]")
        ]
        assert not empty, f"{_name(path)}:{empty} is a container to be filled later"
