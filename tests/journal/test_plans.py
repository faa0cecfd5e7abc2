"""How the database finds what a statement needs: by key, so its cost doesn't grow with what a node owns."""

from holdfast.features.postgres.connection import Database
from holdfast.features.postgres.queries import delta_statement
from holdfast.features.postgres.tuning import PostgresTuning
from stores import PostgresStore

TYPES = {
    "incarnation": "bigint",
    "writer": "bigint",
    "started": "timestamptz",
    "session": "bigint[]",
    "seq": "bigint[]",
    "crc": "bigint[]",
    "body": "bytea[]",
    "sessions": "bigint",
    "fences": "bigint",
}


async def test_deltas_find_their_sessions_by_key_though_little_is_known_of_the_tables(
    new_postgres_dsn: str,
) -> None:
    """The tables are new, so the planner has to guess."""
    store = await PostgresStore.open(new_postgres_dsn, name="a")
    connection = await Database(new_postgres_dsn, PostgresTuning()).connect("writer")
    query = delta_statement()
    try:
        await connection.run(
            f"PREPARE deltas ({', '.join(TYPES[name] for name in query.names)}) AS {query.sql}"
        )
        nothing = ", ".join(["NULL"] * len(query.names))
        plan = [row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE deltas ({nothing})")]
    finally:
        connection.terminate()
        await store.close()
    used = {word for line in plan for word in line.split() if word.startswith("sessions_")}
    assert used == {"sessions_pkey"}, plan
