"""Ids as people type them."""

from pathlib import Path

import pytest

from holdfast import events as e
from holdfast.chaos import ChaosServer, Say
from holdfast.cli.ids import AmbiguousName, resolve_run, resolve_session
from holdfast.cli.offline_reader import OfflineReader
from holdfast.cli.sessions import from_store
from holdfast.client import Client
from holdfast.config.server import ServerSettings
from holdfast.config.settings import Settings
from holdfast.folds.rows import run_of
from serving import served, target_of
from stores import SqliteStore


async def test_a_run_and_a_session_are_named_by_their_beginning_or_as_the_last(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "holdfast.db")
    settings = Settings(server=ServerSettings(data_dir=str(tmp_path)))
    async with (
        ChaosServer([Say("one")], [Say("two")]) as chaos,
        served(target_of(chaos), store=store) as server,
        Client(server.url) as client,
        OfflineReader(settings) as stored,
    ):
        for reads in (client, stored):
            with pytest.raises(AmbiguousName, match="there is no run yet"):
                await resolve_run(reads, "last")
        first = await client.start("hello")
        await client.ended(first.run_id)
        second = await client.start("hello again", session_id=first.session_id)
        await client.ended(second.run_id)
        for reads in (client, stored):
            assert await resolve_run(reads, "last") == second.run_id
            assert await resolve_run(reads, first.run_id[:30]) == first.run_id
            assert await resolve_session(reads, "last") == first.session_id
            assert await resolve_session(reads, first.session_id[:9]) == first.session_id
            for unknown in ("run_", "run_nothing", "", "another"):
                assert await resolve_run(reads, unknown) == unknown
                assert await resolve_session(reads, unknown) == unknown
        events = [event for _, event in await from_store(second.run_id, tmp_path)]
        assert {run_of(event) for event in events} == {second.run_id}
        assert isinstance(events[-1], e.RunEnded)
    await store.close()


async def test_a_beginning_that_fits_several_is_not_guessed_at(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "holdfast.db")
    async with (
        ChaosServer([Say("one")], [Say("two")]) as chaos,
        served(target_of(chaos), store=store) as server,
        Client(server.url) as client,
    ):
        for name in ("ses_a", "ses_ab"):
            await client.ended((await client.start("hello", session_id=name)).run_id)
        assert await resolve_session(client, "ses_a") == "ses_a"
        await client.ended((await client.start("hello", session_id="ses_ac")).run_id)
        await client.purge("ses_a")
        with pytest.raises(AmbiguousName, match="matches 2 sessions"):
            await resolve_session(client, "ses_a")
    await store.close()
