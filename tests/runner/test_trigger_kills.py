"""A server with a trigger is killed at seeded moments, and each instant has one run all the same."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from holdfast import events as e
from holdfast.chaos import ChaosServer, Finish, Say
from holdfast.journal.sqlite.reader import SqliteReader
from runner.program import Program, configure, program

SEED, KILLS = 7, 3


async def until_fires(server: Program, trigger_id: str, more: int) -> None:
    """Ask for the history until so many more fires are in it."""
    first: int | None = None
    while True:
        _, history = await server.call("GET", f"/api/triggers/{trigger_id}/history")
        count = len(history["fires"])
        first = count if first is None else first
        if count >= first + more:
            return


@pytest.mark.long
@pytest.mark.timeout(120)
async def test_a_trigger_fires_each_instant_once_though_its_server_is_killed(tmp_path: Path) -> None:
    """P14: real kills of a real process."""
    chance = random.Random(SEED)  # a seed repeats the same kills
    async with ChaosServer(choose=lambda _: [Say("ok"), Finish()]) as chaos:
        await asyncio.to_thread(configure, tmp_path, chaos.base_url, sandbox="off")
        made: dict[str, Any] = {}
        for _ in range(KILLS):
            async with program(tmp_path) as server:
                if not made:
                    wanted = {"name": "tick", "prompt": "go", "every": "1s", "session_id": "s"}
                    _, made = await server.call("POST", "/api/triggers", wanted)
                await until_fires(server, made["id"], chance.randint(1, 2))
    reader = SqliteReader(await asyncio.to_thread(lambda: next(tmp_path.rglob("holdfast.db"))))
    log = [record.event for record in await reader.read(made["id"], limit=10_000)]
    talk = [record.event for record in await reader.read("s", limit=10_000)]
    await reader.close()
    (created,) = [event for event in log if isinstance(event, e.TriggerCreated)]
    dues = [event for event in log if isinstance(event, e.TriggerDue)]
    instants = [(due.due_at_ms - created.at_ms) // 1000 for due in dues]
    assert instants == list(range(1, len(dues) + 1)), "none is left out, and none comes twice"
    runs = [event.run_id for event in talk if isinstance(event, e.RunQueued)]
    assert len(set(runs)) == len(runs)
    fired = [event.key for event in log if isinstance(event, e.TriggerFired)]
    assert {due.run_id for due in dues if due.key in fired} <= set(runs) <= {due.run_id for due in dues}
