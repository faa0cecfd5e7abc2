"""The SQL of the Postgres store, read from its files: named queries, append statements and migrations."""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_SQL = Path(__file__).with_name("sql")
_PARAMETER = re.compile(r"(?<!:):([a-z_]+)\b")
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


class Query(NamedTuple):
    """A statement, and the names of its parameters in order."""

    sql: str
    names: tuple[str, ...]

    def values(self, bindings: Mapping[str, Any]) -> list[Any]:
        """The values in the order of the parameters."""
        return [bindings[name] for name in self.names]


class SchemaStep(NamedTuple):
    """One step of the schema."""

    number: int
    sql: str


@cache
def queries() -> dict[str, Query]:
    """Every query in queries.sql, by name."""
    return {name: _query(text) for name, text in _QUERIES.items()}


@cache
def append_statement(parts: tuple[str, ...]) -> Query:
    """The statement that appends events and writes these further kinds of rows."""
    ready = ("changing", "ready_to_change") if "changed" in parts else ("ready",)
    steps = ",\n".join(_APPEND_PARTS[name] for name in ("fence", "locked", *ready, *parts))
    return _query(f"WITH {steps}\n{_APPEND_PARTS['events']}")


@cache
def delta_statement() -> Query:
    """The statement that appends nothing but deltas of sessions that the node owns."""
    return _query(f"WITH {_APPEND_PARTS['fence']},\n{_APPEND_PARTS['owned']}\n{_APPEND_PARTS['deltas']}")


def migrations() -> tuple[SchemaStep, ...]:
    """The steps of the schema, in order, numbered without gaps."""
    return _MIGRATIONS


def _read_migrations() -> tuple[SchemaStep, ...]:
    folder = _SQL / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    steps = [SchemaStep(int(name.partition("_")[0]), (folder / name).read_text("utf-8")) for name in names]
    assert [step.number for step in steps] == list(range(1, len(steps) + 1)), f"gap in migrations: {names}"
    return tuple(steps)


def _named_texts(file: str) -> dict[str, str]:
    text = (_SQL / file).read_text("utf-8")
    found: dict[str, str] = {}
    for block in text.split("-- name: ")[1:]:
        name, _, sql = block.partition("\n")
        assert name.strip() not in found, f"two queries are named {name.strip()}"
        found[name.strip()] = _COMMENT.sub("", sql).strip()
    return found


def _query(text: str) -> Query:
    names = tuple(dict.fromkeys(_PARAMETER.findall(text)))
    sql = _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", text)
    return Query(sql, names)


# Read when this is imported, so that nobody waits for the disk later.
_QUERIES = _named_texts("queries.sql")
_APPEND_PARTS = _named_texts("append.sql")
_MIGRATIONS = _read_migrations()
