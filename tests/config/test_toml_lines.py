"""The lines of keys: every path that tomllib finds has one, and it is the right one."""

import tomllib
from collections.abc import Iterator
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.sources import KeyPath
from holdfast.config.toml import lines_of
from tables import for_each_row


def paths_in(value: object, path: KeyPath = ()) -> Iterator[KeyPath]:
    """Every path into a tree."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            yield from paths_in(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[object]", value)):
            yield from paths_in(inner, (*path, index))


TEXTS: list[tuple[str, dict[KeyPath, int]]] = [
    ("a = 1\n\n# c\nb = 2", {("a",): 1, ("b",): 4}),
    ("a.b.c = 1\na.b.d = 2", {("a", "b", "c"): 1, ("a", "b", "d"): 2}),
    ("[a.b]\nc = 1\n[a]\nd = 2", {("a", "b", "c"): 2, ("a", "d"): 4}),
    ("[[a]]\nb = 1\n[[a]]\nb = 2", {("a", 0, "b"): 2, ("a", 1, "b"): 4}),
    ("[[a]]\n[a.b]\nc = 1\n[[a]]\n[a.b]\nc = 2", {("a", 0, "b", "c"): 3, ("a", 1, "b", "c"): 6}),
    (
        "[[a]]\n[[a.b]]\nc=1\n[[a.b]]\nc=2\n[[a]]\n[[a.b]]\nc=3",
        {("a", 0, "b", 1, "c"): 5, ("a", 1, "b", 0, "c"): 8},
    ),
    ("a = [1,\n 2, # ]\n [3,\n 4],\n]\nb = 1", {("a", 1): 2, ("a", 2): 3, ("a", 2, 1): 4, ("b",): 6}),
    ("a = {b = 1, c = {d = [2,\n 3]}}\ne = 1", {("a", "c", "d", 1): 2, ("e",): 3}),
    ('a = """x\n[y]\nz = 1\n"""\nb = 1', {("b",): 5}),
    ('a = """x\n\\"""y\n"""""\nb = 1', {("b",): 4}),
    ("a = '''x\n[y]''''\nb = 1", {("b",): 3}),
    ('a = "# [x] \\" = {" # z\nb = \'\\\'\nc = 1', {("b",): 2, ("c",): 3}),
    ('"a b"."c\\u0041" = 1\n\'d.e\' = 2', {("a b", "cA"): 1, ("d.e",): 2}),
    ("a = 1979-05-27 07:32:00\nb = 1", {("b",): 2}),
    ("a = 1\r\n[b]\r\nc = 2\r\n", {("b", "c"): 3}),
    ("[ a . 'b' ]\n c = 1", {("a", "b", "c"): 2}),
    ("", {}),
]


@for_each_row(("text", "expected"), TEXTS, ids=range(len(TEXTS)))
def test_a_key_has_the_line_that_it_stands_on(text: str, expected: dict[KeyPath, int]) -> None:
    lines = lines_of(text)
    assert {path: lines.get(path) for path in expected} == expected
    assert set(lines) == set(paths_in(tomllib.loads(text)))


KEYS = st.one_of(st.sampled_from("abc"), st.text("a.#[=\"'", min_size=1, max_size=3))
STRINGS = st.text("ab\n\"'\\[]{}#=,", max_size=6)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n") + '"'


VALUES = st.recursive(
    st.one_of(
        st.integers().map(str), STRINGS.map(_quoted), st.just("'''\n'''"), st.just("1979-05-27 07:32:00")
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[ # a comment ]\n" + ",\n".join(items) + "]"),
        st.dictionaries(KEYS, inner, max_size=3).map(
            lambda table: "{" + ", ".join(f"{_quoted(key)} = {value}" for key, value in table.items()) + "}"
        ),
    ),
    max_leaves=8,
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=4)


@given(st.lists(st.tuples(KEYS, TABLES), max_size=4))
def test_every_path_that_the_parser_finds_has_a_line_that_names_it(
    tables: list[tuple[str, dict[str, str]]],
) -> None:
    text = ""
    for name, table in tables:
        text += f"# [comment]\n[[{_quoted(name)}]]\n"
        text += "".join(f"{_quoted(key)} = {value}\n" for key, value in table.items())
    lines = lines_of(text)
    assert set(lines) == set(paths_in(tomllib.loads(text)))
    rows = text.split("\n")
    for path, line in lines.items():
        if isinstance(path[-1], str):
            assert _quoted(path[-1]) in rows[line - 1]


def test_what_is_no_toml_is_read_as_far_as_it_goes() -> None:
    assert lines_of("a = 1\n= 2\nb = 3") == {("a",): 1}
    assert lines_of("a.\n") == {}
    assert lines_of("x = " + "[" * 100_000)[("x",)] == 1
