"""A promise that no test names fails the suite; so does a test that names what was said to come later."""

import ast
import re
from collections.abc import Iterator
from functools import cache
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


@cache
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


def test_every_promise_and_every_seed_is_named_by_a_test() -> None:
    missing = (set(PROMISES) | set(SEEDS)) - set(_named()) - LATER
    assert not missing, f"no test names {sorted(missing)}"


def test_what_is_to_come_later_is_not_there_yet() -> None:
    built = LATER & set(_named())
    assert not built, f"take these off the list of what comes later: {sorted(built)}"


def test_no_test_names_an_id_that_does_not_exist() -> None:
    unknown = {id_: _named()[id_] for id_ in set(_named()) - set(PROMISES) - set(SEEDS)}
    assert not unknown
