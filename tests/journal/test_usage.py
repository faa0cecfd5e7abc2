"""What runs and relayed calls used, added up in the transactions of their events."""

from collections.abc import AsyncIterator

import pytest

from holdfast import events as e
from holdfast.folds.usage import DAY_MS
from holdfast.interfaces.journal import (
    Store,
)
from holdfast.interfaces.usage import UsageQuery, UsageSum
from journal.labs import Lab, opened
from journal.sample import AT_MS, begin, created, ended

TODAY = AT_MS // DAY_MS


@pytest.fixture
async def store(lab: Lab) -> AsyncIterator[Store]:
    """A new one for each test, because the sums of a key outlive its sessions."""
    async with opened(lab) as made:
        yield made


def used(run_id: str, *, target: str = "main", at_ms: int = AT_MS, cost_usd: float | None = 0.5) -> e.Usage:
    return e.Usage(
        at_ms=at_ms,
        run_id=run_id,
        call_id="c",
        target=target,
        input_tokens=100,
        cached_tokens=40,
        output_tokens=10,
        cost_usd=cost_usd,
    )


def relayed(key: str = "laptop", *, at_ms: int = AT_MS, cost_usd: float | None = 0.25) -> e.RelayCalled:
    return e.RelayCalled(
        at_ms=at_ms, call_id="c", key=key, wire="chat", target="main", input_tokens=7, cost_usd=cost_usd
    )


async def add_run(store: Store, *events: e.RunEvent, session_id: str = "s1", key: str = "phone") -> None:
    queued = e.RunQueued(at_ms=AT_MS, run_id="r1", message_id="m1", key=key)
    await store.append(session_id, [created(title="a title"), queued])
    fence = await store.claim(session_id)
    started = e.RunStarted(at_ms=AT_MS, run_id="r1")
    await store.append_run(session_id, [started, *events], fence=fence)


async def usage(store: Store, by: str, first: int = TODAY, last: int = TODAY, **more: str) -> list[UsageSum]:
    return list(await store.usage(UsageQuery(by, first, last, **more)))  # pyright: ignore[reportArgumentType]


async def test_usage_is_added_up_by_day_target_session_and_key(store: Store) -> None:
    tomorrow = AT_MS + DAY_MS
    await add_run(store, used("r1"), used("r1"), used("r1", target="other", cost_usd=None, at_ms=tomorrow))
    await store.append("calls", [created(source="relay"), relayed(), relayed("phone", cost_usd=None)])
    assert await usage(store, "day", TODAY, TODAY + 1) == [
        UsageSum(str(TODAY), "", 1, 2, 214, 80, 20, 1.25, 1),
        UsageSum(str(TODAY + 1), "", 0, 0, 100, 40, 10, None, 1),
    ]
    assert await usage(store, "target", TODAY, TODAY + 1) == [
        UsageSum("main", "", 1, 2, 214, 80, 20, 1.25, 1),
        UsageSum("other", "", 1, 0, 100, 40, 10, None, 1),
    ]
    assert await usage(store, "session") == [
        UsageSum("s1", "a title", 1, 0, 200, 80, 20, 1.0),
        UsageSum("calls", "", 0, 2, 14, 0, 0, 0.25, 1),
    ]
    assert await usage(store, "key") == [
        UsageSum("phone", "", 1, 1, 207, 80, 20, 1.0, 1),
        UsageSum("laptop", "", 0, 1, 7, 0, 0, 0.25),
    ]
    assert await usage(store, "all", api_key="laptop") == [UsageSum("", "", 0, 1, 7, 0, 0, 0.25)]
    assert await usage(store, "day", TODAY + 2, TODAY + 9) == []


async def test_a_run_that_used_nothing_counts_when_it_ends(store: Store) -> None:
    await add_run(store)
    assert await usage(store, "all") in ([], [UsageSum("", "", 0)])
    await store.append_run("s1", [ended("r1")], fence=await store.claim("s1"))
    assert await usage(store, "key") == [UsageSum("phone", "", 1)]
    assert await usage(store, "session") == [UsageSum("s1", "a title", 1)]


async def test_a_fork_and_the_log_of_a_relayed_call_count_nothing_twice(store: Store) -> None:
    await add_run(store, used("r1"), ended("r1"))
    copy = [record.event for record in await store.read("s1")]
    forked = e.SessionForked(at_ms=AT_MS, source_session_id="s1", at_seq=len(copy))
    await store.append("fork", [*copy, forked])  # pyright: ignore[reportArgumentType]
    await store.append(
        "call", [created(source="relay"), e.RunQueued(at_ms=AT_MS, run_id="r2", message_id="m")]
    )
    fence = await store.claim("call")
    await store.append_run("call", [e.RunStarted(at_ms=AT_MS, run_id="r2"), used("r2")], fence=fence)
    await store.append("call", [relayed()])
    assert await usage(store, "all") == [UsageSum("", "", 1, 1, 107, 40, 10, 0.75)]


async def test_a_purge_takes_the_sums_of_its_session_alone(store: Store) -> None:
    await add_run(store, used("r1"))
    await store.append("calls", [created(source="relay"), relayed()])
    before = await usage(store, "key")
    await store.purge("s1")
    assert [one.name for one in await usage(store, "session")] == ["calls"]
    assert await usage(store, "key") == before


async def test_usage_survives_a_restart_and_the_title_counts(lab: Lab) -> None:
    store = await lab.open()
    await begin(store)
    await store.append("s1", [e.SessionRenamed(at_ms=AT_MS, title="t", by="model", cost_usd=0.125)])
    await store.append("s1", [relayed()])
    await store.close()
    store = await lab.open()
    assert await usage(store, "all") == [UsageSum("", "", 0, 1, 7, 0, 0, 0.375)]
    await store.close()
