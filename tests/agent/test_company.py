"""Deltas of runs that talk at once share a commit; a run alone never waits."""

import asyncio

import pytest

from holdfast.agent.company import Company


async def test_who_comes_alone_is_called_in_the_next_round_of_the_loop() -> None:
    company = Company()
    called: list[str] = []
    company.join(lambda: called.append("a"))
    assert called == []
    await asyncio.sleep(0)
    assert called == ["a"]


async def test_those_who_come_soon_after_wait_for_the_beat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.agent.company.BEAT_S", 3_600.0)
    company = Company()
    called: list[str] = []
    for name in "abc":
        company.join(lambda name=name: called.append(name))
        await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    assert called == ["a"]


async def test_at_the_beat_all_are_called_in_their_order() -> None:
    company = Company()
    called: list[str] = []
    done = asyncio.Event()
    for name in "abc":
        company.join(lambda name=name: called.append(name))
        await asyncio.sleep(0)
    company.join(done.set)
    await done.wait()
    assert called == ["a", "b", "c"]


async def test_what_a_caller_does_then_waits_for_the_beat_after_that() -> None:
    company = Company()
    done = asyncio.Event()

    def again() -> None:
        company.join(done.set)

    company.join(again)
    await done.wait()
