"""Readers: two or two hundred, early or late, before a restart or after it, they see the same log."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait
from server.toolbox import Counted
from serving import PATIENT, Setting, served, target_of
from stores import SqliteStore


async def log_lines(http: aiohttp.ClientSession, url: str) -> bytes:
    """What a reader gets that is part of the log: ids and data, byte for byte."""
    lines: list[bytes] = []
    async with http.get(url) as answer:
        is_kept = False
        async for line in answer.content:
            is_kept = line.startswith(b"id: ") or (is_kept and line.startswith(b"data: "))
            if is_kept:
                lines.append(line)
    return b"".join(lines)


@pytest.mark.parametrize("view", ["hermes", "native"])
async def test_two_hundred_readers_see_the_same_bytes_whenever_they_come(tmp_path: Path, view: str) -> None:
    """P7: those who were there from the start, who came in the middle, and who comes after a restart."""
    store = await SqliteStore.open(tmp_path / "holdfast.db")
    gate = Gate()
    scripts = [Say("let me see"), CallTool("touch", {})], [Say("half "), Wait(gate), Say("and half")]
    async with (
        ChaosServer(*scripts) as chaos,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http,
    ):
        target, setting = target_of(chaos, patience=PATIENT), Setting(tools=(Counted(),))
        async with served(target, store=store, setting=setting) as server:
            run_id = await server.start(session_id="s")
            path = f"/v1/runs/{run_id}/events?view={view}"
            early = [asyncio.create_task(log_lines(http, server.url + path)) for _ in range(100)]
            await server.until_streams(100)
            await gate.reached()
            middle = [asyncio.create_task(log_lines(http, server.url + path)) for _ in range(100)]
            await server.until_streams(200)
            gate.open()
            seen = await asyncio.gather(*early, *middle)
            late = await log_lines(http, server.url + path)
        await store.close()
        store = await SqliteStore.open(tmp_path / "holdfast.db")
        async with served(target, store=store, setting=setting) as server:
            after_restart = await log_lines(http, server.url + path)
    await store.close()
    assert set(seen) == {late} == {after_restart}
    assert (b"run.ended" if view == "native" else b"run.completed") in late


async def test_a_reader_that_comes_back_after_any_event_gets_the_rest() -> None:
    """P7: a reconnect at each event, while the run goes on and after its end, in both views."""
    gate = Gate()
    async with (
        ChaosServer([Say("let me see"), CallTool("touch", {})], [Say("a b"), Wait(gate)]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=Setting(tools=(Counted(),))) as server,
    ):
        run_id = await server.start()
        await gate.reached()
        reading = {
            (view, nth): asyncio.create_task(server.all_frames(run_id, view=view, after=nth or None))
            for view in ("native", "hermes")
            for nth in range(12)
        }
        await server.until_streams(len(reading))
        gate.open()
        for view in ("native", "hermes"):
            whole = await server.all_frames(run_id, view=view)
            ids = [frame.id for frame in whole]
            for nth in range(12):
                # What is no id of this run in this log replays everything; no reader ever misses a frame.
                expected = whole[ids.index(nth) + 1 :] if nth in ids else whole
                got = await reading[view, nth]
                assert got in (expected, [frame for frame in whole if frame.id > nth]), (view, nth)
            for nth, seq in enumerate(ids[:-1]):
                assert await server.all_frames(run_id, view=view, after=seq) == whole[nth + 1 :]
