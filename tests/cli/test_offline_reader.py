"""The store read by a command: the same answers as the server gives."""

import asyncio
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Hang, Say
from holdfast.cli.offline_reader import OfflineReader
from holdfast.cli.reader import PausedSession, Reader
from holdfast.cli.sessions import show_session
from holdfast.client import Client, Refused, Seen
from holdfast.config.server import ServerSettings
from holdfast.config.settings import Settings
from holdfast.host.lock import LockHolder
from scene import begun
from server.toolbox import Counted
from serving import PATIENT, AsksAbout, Setting, served, target_of
from stores import SqliteStore


async def listed(reads: Reader, **query: Any) -> list[tuple[str, str, str]]:
    """A page of runs, as far as a list has them."""
    page = await reads.runs(**query)
    return [(run.run_id, run.status, run.preview) for run in page.data]


async def test_what_the_store_says_is_what_the_server_says(tmp_path: Path) -> None:
    """P7: runs, sessions, search, transcript, export, tail and open asks."""
    setting = Setting(tools=(Counted(),), judge=AsksAbout(frozenset({"touch"})))
    settings = Settings(server=ServerSettings(data_dir=str(tmp_path)))
    store = await SqliteStore.open(tmp_path / "holdfast.db")
    async with ChaosServer([Say("the **walrus**")], [CallTool("touch", {})]) as chaos:
        target = target_of(chaos, patience=PATIENT)
        async with served(target, store=store, setting=setting) as server, Client(server.url) as client:
            done = await client.start("find it")
            await client.ended(done.run_id)
            waits = await client.start("make it")
            async for seen in client.follow(waits.run_id):
                if isinstance(seen.event, e.ApprovalAsked):
                    break
            async with OfflineReader(settings) as stored:
                for reads in (stored, client):
                    assert (await reads.run(done.run_id)).output == "the **walrus**"
                assert await stored.run(done.run_id) == await client.run(done.run_id)
                assert await stored.approvals() == await client.approvals()
                assert await stored.sessions() == await client.sessions()
                assert await stored.sessions(words="walrus") == await client.sessions(words="walrus")
                assert await stored.export(done.session_id) == await client.export(done.session_id)
                there, here = await client.messages(done.session_id), await stored.messages(done.session_id)
                assert (here.data, here.last_seq) == (there.data, there.last_seq)
                md = await stored.export(done.session_id, form="md")
                assert md == await client.export(done.session_id, form="md")
                told = [one async for one in stored.watch(done.run_id) if isinstance(one, Seen)]
                assert told == [one async for one in client.follow(done.run_id)]
                for page in ({}, {"limit": 1}, {"status": "completed"}, {"status": "waiting_for_approval"}):
                    assert await listed(stored, **page) == await listed(client, **page)
                newest = await stored.runs(limit=1)
                assert (newest.has_more, newest.data[0].preview) == (True, "make it")
                older = await stored.runs(limit=1, cursor=newest.next_cursor or "")
                assert (older.has_more, older.data[0].preview) == (False, "find it")
                with pytest.raises(Refused, match="Run not found"):
                    await stored.run("run_x")
    await store.close()


async def test_a_run_that_nobody_carries_out_is_said_to_be_paused_and_not_running(tmp_path: Path) -> None:
    """P4: what a list says is true also while no server is there."""
    settings = Settings(server=ServerSettings(data_dir=str(tmp_path)))
    store = await SqliteStore.open(tmp_path / "holdfast.db")
    async with ChaosServer([Hang()]) as chaos:
        target = target_of(chaos, patience=PATIENT)
        async with served(target, store=store) as server, Client(server.url) as client:
            cut = await client.start("count the stars", session_id="s")
            await chaos.seen.until_body(1)
            waits = await client.start("and the planets", session_id="s")
        await store.close()
    async with OfflineReader(settings) as stored:
        assert await listed(stored) == [
            (waits.run_id, "queued", "and the planets"),
            (cut.run_id, "paused", "count the stars"),
        ]
        assert await listed(stored, status="running") == []
        assert [run_id for run_id, *_ in await listed(stored, status="paused")] == [cut.run_id]
        assert (
            await stored.run(cut.run_id)
        ).hint == "No server is running; the run continues when one starts."
        (session,) = (await stored.sessions()).data
        assert (isinstance(session, PausedSession), session.open_runs) == (True, 2)
        (found,) = (await stored.sessions(words="planets")).data
        assert isinstance(found, PausedSession)
    holder = msgspec.json.encode(LockHolder(os.getpid(), "http://127.0.0.1:1"))
    await asyncio.to_thread((tmp_path / "lock").write_bytes, holder)
    async with OfflineReader(settings) as stored:
        assert [run_id for run_id, *_ in await listed(stored, status="running")] == [cut.run_id]
        assert not isinstance((await stored.sessions()).data[0], PausedSession)


async def _with_illegal_log(folder: Path) -> None:
    """A store whose only session ends with a word of a run that never began."""
    scene = begun()
    scene.run_id = "r9"
    scene.pieces("of another log")
    store = await SqliteStore.open(folder / "holdfast.db")
    created = e.SessionCreated(at_ms=1, epoch="x")
    fence = await store.claim("s")
    await store.append_run("s", [created, *(event for _, event in scene.log)], fence=fence)
    await store.close()


def test_a_log_that_cannot_be_read_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """P12: which event of which run it is, and no traceback."""
    asyncio.run(_with_illegal_log(tmp_path))
    assert show_session({"data_dir": str(tmp_path)}, "s", limit=5, form="text") == 1
    said = capsys.readouterr().err
    assert said == "holdfast: seq 8: text.delta of run r9 is illegal: the run is unknown\n"


async def test_where_nothing_was_kept_yet_lists_are_empty_and_everything_is_unknown(tmp_path: Path) -> None:
    """P12: a script that lists on a fresh machine gets an empty list, and nothing is made by asking."""
    settings = Settings(server=ServerSettings(data_dir=str(tmp_path / "data"), api_keys=()))
    async with OfflineReader(settings) as stored:
        assert (await stored.runs()).data == (await stored.sessions()).data == ()
        assert [*await stored.approvals(), *await stored.keys()] == []
        assert (await stored.sessions(words="x")).data == ()
        with pytest.raises(Refused, match="Run not found"):
            await stored.run("run_x")
        with pytest.raises(Refused, match="Session not found"):
            await stored.messages("x")
    assert not await asyncio.to_thread((tmp_path / "data").exists)
