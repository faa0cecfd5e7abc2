"""The SQL of the SQLite store, read from its files: named queries and numbered migrations."""

from functools import cache
from pathlib import Path
from typing import NamedTuple

_SQL = Path(__file__).with_name("sql")


class Migration(NamedTuple):
    """One step of the schema; `number` is the user_version after it."""

    number: int
    name: str
    sql: str


@cache
def queries() -> dict[str, str]:
    """Every query in queries.sql, by name."""
    text = (_SQL / "queries.sql").read_text("utf-8")
    found: dict[str, str] = {}
    for block in text.split("-- name: ")[1:]:
        name, _, sql = block.partition("\n")
        assert name.strip() not in found, f"two queries are named {name.strip()}"
        found[name.strip()] = sql.strip()
    return found


@cache
def insert_events(count: int) -> str:
    """The query that inserts this many events at once."""
    head, values = queries()["insert_event"].split(" VALUES ")
    return f"{head} VALUES {', '.join([values] * count)}"


@cache
def migrations() -> tuple[Migration, ...]:
    """The steps of the schema, in order, numbered without gaps."""
    folder = _SQL / "migrations"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    steps = [
        Migration(int(name.partition("_")[0]), name, (folder / name).read_text("utf-8")) for name in names
    ]
    assert [step.number for step in steps] == list(range(1, len(steps) + 1)), f"gap in migrations: {names}"
    return tuple(steps)
