"""A process that writes to a store and says on stdout what its followers were shown; for tests that kill it.

Usage: python writing_child.py STORE SEED
Each line is "session_id seq crc-of-body". It runs until it is killed, or until stdin ends.
"""

import asyncio
import os
import random
import sys
from pathlib import Path
from zlib import crc32

from holdfast import events as e
from holdfast.interfaces.journal import Fence, IfSessionNew
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.redaction import NO_SECRETS

SESSIONS = 4


async def write(store: SqliteStore, session_id: str, *, fence: Fence, chance: random.Random) -> None:
    created = e.SessionCreated(at_ms=1, epoch="e")
    await store.append(session_id, [created], when=[IfSessionNew()])
    nth = 0
    while True:
        nth += 1
        events: list[e.Event] = [
            e.TextDelta(at_ms=nth, run_id="r", segment=0, text="x" * chance.randrange(1, 2_000))
            for _ in range(chance.randrange(1, 4))
        ]
        if chance.random() < 0.1:
            events.append(e.TextDone(at_ms=nth, run_id="r", segment=0, text="word " * chance.randrange(50)))
        await store.append_run(session_id, events, fence=fence)


async def tell(store: SqliteStore, session_id: str, *, after: int) -> None:
    async for batch in store.follow(session_id, after=after):
        lines = [f"{record.session_id} {record.seq} {crc32(record.body)}\n" for record in batch]
        os.write(1, "".join(lines).encode())


async def main(path: Path, seed: int) -> None:
    store = await SqliteStore.open(path, NO_SECRETS)
    fence = await store.claim("")
    chance = random.Random(seed)
    async with asyncio.TaskGroup() as tasks:
        for nth in range(SESSIONS):
            session_id = f"s{nth}"
            tasks.create_task(tell(store, session_id, after=await store.last_seq(session_id)))
            tasks.create_task(write(store, session_id, fence=fence, chance=chance))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
