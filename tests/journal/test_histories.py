"""Histories that runs were given are stored once, and nobody who reads notices."""

import asyncio
import random
import tempfile
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import events as e
from holdfast.codec import encode
from holdfast.interfaces.journal import Store
from holdfast.journal.sqlite.histories import PIECE_BYTES
from holdfast.journal.sqlite.integrity import check_store
from holdfast.values import HistoryMessage, TextPart
from journal.labs import LABS, SqliteLab
from journal.promise_checks import check_a_purge_leaves_the_histories_of_others_whole
from journal.sample import AT_MS, created, message

TURNS = 200


def said(nth: int, *, size: int = 400, by: str = "") -> HistoryMessage:
    words = random.Random(f"{by}{nth}").choices(
        ["alpha", "beta", "gamma", 'a "quoted" one', "ü😀"], k=size // 6
    )
    return HistoryMessage(
        role="user" if nth % 2 == 0 else "assistant", content=f"{by}{nth} {' '.join(words)}"
    )


def conversation(count: int, **how: object) -> tuple[HistoryMessage, ...]:
    return tuple(said(nth, **how) for nth in range(count))  # pyright: ignore[reportArgumentType]


def run(history: tuple[HistoryMessage, ...] | None, run_id: str = "r1") -> e.RunQueued:
    return e.RunQueued(at_ms=AT_MS, run_id=run_id, message_id="m1", history=history)


async def give(store: Store, session_id: str, history: tuple[HistoryMessage, ...]) -> bytes:
    """A session with one run that has this history; the bytes that were to be stored."""
    queued = run(history, f"run_{session_id}")
    await store.append(session_id, [created(), message("hi"), queued])
    return encode(queued)


def stored_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file())


def pieces(lab: SqliteLab) -> list[tuple[int, int]]:
    """How many references each piece has, and how many it should have."""
    database = apsw.Connection(str(lab.path))
    try:
        found = database.execute(
            "SELECT refs, (SELECT count(*) FROM piece_refs WHERE piece = id)"
            " + (SELECT count(*) FROM pieces AS next WHERE next.prev = pieces.id) FROM pieces"
        ).fetchall()
        return [(int(one), int(other)) for one, other in found]  # pyright: ignore[reportArgumentType]
    finally:
        database.close()


@pytest.mark.parametrize("is_one_session", [False, True])
async def test_a_conversation_that_is_sent_whole_with_each_message_grows_by_what_is_new(
    tmp_path: Path, *, is_one_session: bool
) -> None:
    """P2: what is stored grows with the conversation, and not with its square."""
    lab = SqliteLab(tmp_path)
    store = await lab.open()
    whole, sizes = conversation(2 * TURNS), list[int]()
    await store.append("s", [created(), message("hi")])
    for turn in range(1, TURNS + 1):
        if is_one_session:
            await store.append("s", [run(whole[: 2 * turn], f"r{turn}")])
        else:
            await give(store, f"s{turn}", whole[: 2 * turn])
        if turn % (TURNS // 2) == 0:
            await store.close()
            sizes.append(await asyncio.to_thread(stored_bytes, tmp_path))
            store = await lab.open()
    await store.close()
    first, second = sizes[0], sizes[1] - sizes[0]
    assert second < 1.5 * first
    assert sizes[1] < TURNS * 2 * PIECE_BYTES


async def test_a_history_is_read_as_it_was_written_however_it_is_cut(tmp_path: Path) -> None:
    """P7: bytes in, bytes out, also for one who follows from the file and after a restart."""
    lab = SqliteLab(tmp_path)
    store = await lab.open()
    whole = conversation(400)
    giant = HistoryMessage(role="user", content="x" * (3 * PIECE_BYTES))
    histories = {
        "short": whole[:2],
        "long": whole,
        "longer": (*whole, said(400)),
        "branch": (*whole[:300], said(7, by="other"), *conversation(100, by="more")),
        "giant": (giant, giant, *whole[:3]),
        "giant last": (*whole[:60], giant),
        "with parts": (
            *whole[:100],
            HistoryMessage(role="user", content="", parts=(TextPart("p" * 20_000),)),
        ),
        "none": (),
    }
    written = {name: await give(store, name, history) for name, history in histories.items()}
    for again in (False, True):
        if again:
            await store.close()
            store = await lab.open()
        for name, body in written.items():
            records = await store.read(name)
            assert records[-1].body == body
            assert records[-1].event == run(histories[name], f"run_{name}")
    await store.close()
    assert all(refs == expected for refs, expected in await asyncio.to_thread(pieces, lab))
    checked = await asyncio.to_thread(check_store, lab.path, on_progress=lambda _, __: None)
    assert (checked.faults, checked.events) == ([], 3 * len(histories))


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 120), st.booleans()), max_size=12))
def test_pieces_live_as_long_as_an_event_that_needs_them(steps: list[tuple[int, int, bool]]) -> None:
    """P11: in any order of runs and purges the rest stays readable, and what nobody needs is gone."""

    async def story(folder: Path) -> None:
        lab, kept = SqliteLab(folder), dict[str, bytes]()
        store = await lab.open()
        for nth, (branch, count, purges) in enumerate(steps):
            history = (*conversation(count), said(0, by=f"b{branch}"), *conversation(count, by=f"b{branch}"))
            kept[f"s{nth}"] = await give(store, f"s{nth}", history)
            if purges:
                gone = sorted(kept)[branch % len(kept)]
                del kept[gone]
                await store.purge(gone)
            for name, body in kept.items():
                assert (await store.read(name))[-1].body == body
        counts = pieces(lab)
        assert all(refs == expected > 0 for refs, expected in counts)
        for name in kept:
            await store.purge(name)
        assert pieces(lab) == []
        await store.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(story(Path(folder)))


async def test_nothing_of_a_purged_history_is_left_in_the_file(tmp_path: Path) -> None:
    """P11: but what another session was given too, which stays whole."""
    lab = SqliteLab(tmp_path)
    store = await lab.open()
    shared = conversation(150, by="both")
    await give(store, "gone", (*shared, *conversation(150, by="plugh")))
    body = await give(store, "kept", (*shared, *conversation(20, by="xyzzy")))
    await store.purge("gone")
    assert (await store.read("kept"))[-1].body == body
    await store.close()
    data = b"".join([file.read_bytes() for file in tmp_path.iterdir()])  # noqa: ASYNC240
    assert b"plugh" not in data
    assert b"both0" in data


async def test_a_piece_that_is_lost_is_reported_and_not_papered_over(tmp_path: Path) -> None:
    lab = SqliteLab(tmp_path)
    store = await lab.open()
    await give(store, "s", conversation(300))
    await store.close()

    def lose() -> list[str]:
        database = apsw.Connection(str(lab.path))
        database.execute("DELETE FROM pieces WHERE id = 2")
        database.close()
        return check_store(lab.path, on_progress=lambda _, __: None).faults

    (fault,) = await asyncio.to_thread(lose)
    assert "session s seq 3" in fault


async def test_a_reader_meanwhile_sees_a_purged_log_whole_or_not_at_all(tmp_path: Path) -> None:
    """P7: nobody is told of damage that is none."""
    lab = SqliteLab(tmp_path)
    store = await lab.open()
    for nth in range(10):
        body = await give(store, f"s{nth}", conversation(200, by=f"{nth}"))
        reading = [asyncio.ensure_future(store.read(f"s{nth}")) for _ in range(8)]
        purging = asyncio.ensure_future(store.purge(f"s{nth}"))
        for records in await asyncio.gather(*reading):
            assert not records or records[-1].body == body
        await purging
    await store.close()


@pytest.mark.parametrize("name", LABS)
async def test_a_purge_leaves_the_histories_of_others_whole(name: str, tmp_path: Path) -> None:
    """P2: in every store."""
    await check_a_purge_leaves_the_histories_of_others_whole(LABS[name](tmp_path))
