"""A pooler between the nodes and the database: nothing that belongs to one connection may be relied on."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.config.server import ServerSettings
from holdfast.config.settings import Secret, Settings
from holdfast.features.postgres.doctor import check_database
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.interfaces.journal import Appended
from journal.labs import PostgresLab, until
from journal.node_checks import (
    NodeCheck,
    check_an_input_after_a_purge_leaves_nothing,
    check_no_statement_outlives_a_take_over,
)
from journal.promise_checks import first_seqs
from journal.sample import begin, delta, message
from pgbouncer_lab import pgbouncer
from postgres_lab import PostgresServer

# Silent notices are noticed soon; notices that arrive are never late.
POLLING = PostgresTuning(listen_silence_s=0.2, beat_s=0.05, poll_idle_s=0.05)
DIRECT = replace(POLLING, listen_silence_s=60)
POLLS = "looks for changes instead"


@pytest.fixture
def pooler(postgres: PostgresServer) -> Iterator[int]:
    if not postgres.ours:
        pytest.skip("the pooler knows the way to our own server")
    # One for each test: it keeps connections to the database, which emptying that ends.
    with pgbouncer(postgres, "transaction") as port:
        yield port


@pytest.fixture(params=["polling", "direct"])
async def lab(
    request: pytest.FixtureRequest, postgres: PostgresServer, postgres_dsn: str, pooler: int
) -> AsyncIterator[PostgresLab]:
    pooled = postgres.through(postgres_dsn, port=pooler)
    is_direct = request.param == "direct"
    made = PostgresLab(
        pooled, tuning=DIRECT if is_direct else POLLING, direct=postgres_dsn if is_direct else ""
    )
    yield made
    await made.close()


async def test_two_nodes_work_behind_a_transaction_pooler(
    lab: PostgresLab, caplog: pytest.LogCaptureFixture
) -> None:
    """P1, P7: appends, followers, changes and claims work whether notices arrive or not."""
    one, other = await lab.join(), await lab.join()
    fence = await begin(one, run_id="r1")
    following = asyncio.ensure_future(first_seqs(other, 3, after=2))
    changes = other.changes()
    await asyncio.gather(*[other.append("s1", [message(f"message {nth}")]) for nth in range(2)])
    assert await one.append_run("s1", [delta("answer")], fence=fence) == Appended(5, 5)
    assert await following == [3, 4, 5]
    assert "s1" in await anext(changes)
    await one.release("s1", fence)
    assert (await other.claim("s1")).number != fence.number
    if not lab.direct:
        await until(lambda: POLLS in caplog.text)
    await one.purge("s1")
    assert await other.last_seq("s1") == 0
    assert (POLLS in caplog.text) == (lab.direct == "")


# Not the one that lets a statement time out: cancelling it ends the oldest PgBouncer that is in use.
@pytest.mark.parametrize(
    "check", [check_no_statement_outlives_a_take_over, check_an_input_after_a_purge_leaves_nothing]
)
@pytest.mark.parametrize("lab", ["polling"], indirect=True)
async def test_what_nodes_promise_holds_behind_a_transaction_pooler(
    lab: PostgresLab, check: NodeCheck
) -> None:
    """P1, P2, P7: fences, purges and take-overs work by single statements, whoever executes them."""
    await check(lab)  # the check itself asserts


def test_the_doctor_says_that_notifications_get_lost_behind_a_transaction_pooler(
    postgres: PostgresServer, postgres_dsn: str, pooler: int, tmp_path: Path
) -> None:
    pooled = Secret(postgres.through(postgres_dsn, port=pooler))
    server = ServerSettings(store=pooled, data_dir=str(tmp_path))
    found = {one.name: one for one in check_database(Settings(server=server))}
    assert found["pooler"].state == "ok"
    assert (found["notifications"].state, "store_direct" in found["notifications"].advice) == ("note", True)
    server = replace(server, store_direct=Secret(postgres_dsn))
    found = {one.name: one for one in check_database(Settings(server=server))}
    assert found["notifications"].state == "ok"
