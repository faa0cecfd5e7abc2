"""A promise that no test names fails the suite; so does a test that names what was said to come later."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from promises import LATER, PROMISES, SEEDS

HERE = Path(__file__).parent
ID = re.compile(r"\b(P\d{1,2}|S00\d-\d{1,2})\b")
RANGE = re.compile(r"\b(S00\d)-(\d{1,2})(?:\.\.| to )(?:S00\d-)?(\d{1,2})\b")


def _tests(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function and node.name.startswith(("test_", "check_")):
            yield node


def _named() -> dict[str, list[str]]:
    """Which tests name which ids, in their docstrings or their marks."""
    named: dict[str, list[str]] = {}
    for path in sorted(HERE.rglob("*.py")):
        for test in _tests(path):
            said = " ".join([ast.get_docstring(test) or "", *map(ast.unparse, test.decorator_list)])
            ids = set(ID.findall(said))
            for seed, first, last in RANGE.findall(said):
                ids |= {f"{seed}-{number}" for number in range(int(first), int(last) + 1)}
            for id_ in ids:
                named.setdefault(id_, []).append(f"{path.name}::{test.name}")
    return named


def test_tests_name_every_promise_and_seed_and_no_other() -> None:
    named = _named()
    missing = (set(PROMISES) | set(SEEDS)) - set(named) - LATER
    assert not missing, f"no test names {sorted(missing)}"
    built = LATER & set(named)
    assert not built, f"take these off the list of what comes later: {sorted(built)}"
    unknown = {id_: named[id_] for id_ in set(named) - set(PROMISES) - set(SEEDS)}
    assert not unknown, "no such promise or seed"
