"""What a node knows of a log's end, when a notice makes it forget that between looking and writing."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.codec import encode
from holdfast.events import Event
from holdfast.features.postgres.connection import Connection, Database
from holdfast.features.postgres.heads import Heads
from holdfast.features.postgres.jobs import PendingAppend
from holdfast.features.postgres.plan import AppendPlan
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.interfaces.journal import Appended, Condition, Declined, IfSessionKnown, IfSessionNew, Record
from journal.sample import begin, created, message
from stores import PostgresStore


@pytest.fixture
async def connection(postgres_dsn: str) -> AsyncIterator[Connection]:
    store = await PostgresStore.open(postgres_dsn, name="a")
    await begin(store)
    connection = await Database(postgres_dsn, PostgresTuning()).connect("reader")
    yield connection
    connection.terminate()
    await store.close()


def job(session_id: str, *events: Event, when: tuple[Condition, ...] = ()) -> PendingAppend:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    records = [Record(session_id, 0, encode(event), event) for event in events]
    return PendingAppend(
        future=future,
        bytes=1,
        session_id=session_id,
        records=records,
        fence=None,
        when=when,
        idempotency_key=None,
    )


async def test_a_session_whose_end_was_forgotten_after_it_was_read_still_exists(
    connection: Connection,
) -> None:
    """P2: a notice from another node must not make an input fail as if its session had been deleted."""
    heads = Heads()
    known = job("s1", message("hello"), when=(IfSessionKnown(),))
    new = job("s1", created(), when=(IfSessionNew(),))
    looked = await heads.look(connection, [known, new])
    heads.clear()
    plan = AppendPlan(heads, looked, incarnation=1, new_keys=[7])
    assert isinstance(plan.add(known), Appended)
    heads.forget(["s1"])
    assert plan.add(new) == Declined(IfSessionNew())
    assert 7 not in plan.tops()


async def test_two_appends_to_a_new_session_are_one_log_though_its_end_was_forgotten_in_between(
    connection: Connection,
) -> None:
    heads = Heads()
    first, second = job("new", created()), job("new", message("hello"), when=(IfSessionKnown(),))
    plan = AppendPlan(heads, await heads.look(connection, [first, second]), incarnation=1, new_keys=[7])
    assert plan.add(first) == Appended(1, 1)
    heads.forget(["new"])
    assert plan.add(second) == Appended(2, 2)
