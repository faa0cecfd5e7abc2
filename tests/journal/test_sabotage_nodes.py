"""The proofs about several nodes are honest: each check passes for our store and fails for a wrong one."""

import asyncio

import pytest

from journal.labs import PostgresLab
from journal.node_checks import NODE_CHECKS, NodeCheck
from journal.sabotage_nodes import NODE_SABOTAGES, NodeSabotage
from postgres_lab import PostgresServer

pytestmark = pytest.mark.long

# Only a broken check waits as long as this, and that is no proof.
PATIENCE_S = 90
NOTICED = (AssertionError, pytest.fail.Exception)


@pytest.mark.parametrize("check", NODE_CHECKS, ids=lambda one: one.__name__)
async def test_our_store_passes(check: NodeCheck, postgres_dsn: str) -> None:
    await check(PostgresLab(postgres_dsn))  # the check itself asserts


@pytest.fixture
def dsn(sabotage: NodeSabotage, request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue("new_postgres_dsn" if sabotage.schema else "postgres_dsn")


@pytest.mark.parametrize("sabotage", NODE_SABOTAGES, ids=lambda one: one.name)
async def test_a_wrong_store_is_found_out(sabotage: NodeSabotage, postgres: PostgresServer, dsn: str) -> None:
    if sabotage.schema:
        await (await PostgresLab(dsn).join()).close()
        await asyncio.to_thread(postgres.sql, sabotage.schema, dsn=dsn)
    lab = PostgresLab(dsn, kind=sabotage.kind)
    with pytest.raises(NOTICED):
        async with asyncio.timeout(PATIENCE_S):
            await sabotage.check(lab)
    await lab.close()
