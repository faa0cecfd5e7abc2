"""A seeded campaign: a stranger sends notifications of every kind while a run writes and others follow it."""

import asyncio
import json
import random

from holdfast.interfaces.journal import Appended
from journal.labs import PostgresLab
from journal.node_checks import connected
from journal.promise_checks import first_seqs
from journal.sample import begin, delta, message
from stores import PostgresStore

NUMBERS: tuple[object, ...] = (0, 1, 2, 900, 2**31, 2**63 - 1, 2**63, -1, 0.5, 1e300, None, True, "1", [], {})
TEXTS = ("s1", "s2", "", "s\x00", "\ud800", "s" * 900, "\u202es1", "ses_unknown")


class ForgedNotices:
    """Makes payloads: some are no notices, and some name sessions, keys and nodes that exist."""

    def __init__(self, dice: random.Random, *, keys: list[int], incarnations: list[int]) -> None:
        self._dice = dice
        self._keys = keys
        self._incarnations = incarnations

    def next(self) -> str:
        dice = self._dice
        if dice.random() < 0.2:
            return "".join(chr(dice.randrange(1, 0xD7FF)) for _ in range(dice.randrange(1, 200)))
        fields: list[object] = [
            self._number(self._incarnations),
            self._number([]),
            [self._top() for _ in range(dice.randrange(4))],
            [dice.choice(TEXTS) for _ in range(dice.randrange(3))],
            dice.random() < 0.3,
            [dice.choice(TEXTS) for _ in range(dice.randrange(3))],
        ]
        if dice.random() < 0.2:
            fields[dice.randrange(len(fields))] = dice.choice(NUMBERS)
        payload = json.dumps(fields[: dice.randrange(3, 7)])
        return payload[: dice.randrange(1, len(payload))] if dice.random() < 0.1 else payload

    def _top(self) -> list[object]:
        return [self._number(self._keys), self._number([]), self._dice.random() < 0.5]

    def _number(self, real: list[int]) -> object:
        dice = self._dice
        if real and dice.random() < 0.6:
            return dice.choice(real)
        return dice.choice(NUMBERS[:6] if dice.random() < 0.9 else NUMBERS)


async def check_forged_notices_leave_runs_and_readers_alone(lab: PostgresLab) -> None:
    """P10, P3: the short campaign."""
    await forged_notices(lab, seed=1, count=150)


async def forged_notices(lab: PostgresLab, *, seed: int, count: int) -> None:
    """P10, P3: whatever is sent, an active run and its readers at every node lose nothing."""
    one, other = await lab.join(), await lab.join()
    try:
        await _attacked(lab, (one, other), dice=random.Random(seed), count=count)
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    finally:
        await one.close()
        await other.close()


async def _attacked(
    lab: PostgresLab, nodes: tuple[PostgresStore, PostgresStore], *, dice: random.Random, count: int
) -> None:
    one, other = nodes
    known = other.changes()
    fence = await begin(one, run_id="r1")
    begun = await one.last_seq("s1")
    while "s1" not in await anext(known):
        pass
    last = begun + 1 + count
    following = [asyncio.ensure_future(first_seqs(store, last)) for store in nodes]
    async with connected(lab) as stranger:
        ((key, schema),) = await stranger.fetch(
            "SELECT key, current_schema() FROM sessions WHERE session_id = 's1'"
        )
        incarnations = [store.node.incarnation for store in nodes]
        forged = ForgedNotices(dice, keys=[key, key + 1], incarnations=incarnations)
        for seq in range(begun + 1, last):
            payload = forged.next().replace("'", "''")
            await stranger.run(f"SELECT pg_notify('holdfast_{schema}', '{payload}')")
            assert await one.append_run("s1", [delta(f"{seq} ")], fence=fence) == Appended(seq, seq)
    assert await other.append("s1", [message("done")]) == Appended(last, last)
    assert await asyncio.gather(*following) == [list(range(1, last + 1))] * 2
    for store in nodes:
        assert (dict(store.failing), store.trouble) == ({}, None)
