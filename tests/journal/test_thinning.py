"""Thinning on every store: what goes, what stays, and who may do what meanwhile."""

import asyncio
from contextlib import aclosing

import pytest

from holdfast import events as e
from holdfast.interfaces.journal import Appended, Store
from holdfast.journal.thinning import STRETCH_CHARS_MAX, STRETCH_RECORDS_MAX
from journal.labs import Lab
from journal.promise_checks import check_thinning_takes_no_text_from_anyone
from journal.sample import AT_MS, begin, created, message, seqs
from journal.thinning_scene import LATE_MS, new_scene, old_run, stored, texts, thin
from scene import Scene

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_deltas_of_an_old_run_become_one_each_and_nothing_else_changes(store: Store) -> None:
    """P1, P4: the text, its place and its time stay; the run has the same one ending."""
    await stored(store, old_run(new_scene(), "r1", "one ", "two ", "three"))
    before = list(await store.read("s1"))
    run, row = await store.run("r1"), await store.session("s1")
    assert await thin(store) == 4
    after = list(await store.read("s1"))
    assert texts(after) == [(8, "let me see"), (12, "one two three")]
    assert seqs(after) == [seq for seq in seqs(before) if seq not in {9, 10, 13, 14}]
    unchanged = {record.seq: record.body for record in before} | {
        record.seq: record.body for record in after if record.seq in {8, 12}
    }
    assert {record.seq: record.body for record in after} == {seq: unchanged[seq] for seq in seqs(after)}
    assert {record.event.at_ms for record in after} <= {record.event.at_ms for record in before}
    assert (await store.run("r1"), await store.session("s1")) == (run, row)
    assert [hit.seq for hit in await store.search("three")] == [15]
    assert await thin(store) == 0
    assert await store.last_seq("s1") == before[-1].seq


async def test_the_log_goes_on_after_its_last_seq_and_what_comes_is_seen_as_ever(store: Store) -> None:
    """P2: an input that is accepted after a thinning has the next seq."""
    await stored(store, old_run(new_scene(), "r1", "one ", "two"))
    last = await store.last_seq("s1")
    await thin(store)
    assert await store.append("s1", [message("on")]) == Appended(last + 1, last + 1)
    assert seqs(await store.read("s1"))[-2:] == [last, last + 1]
    async for batch in store.follow("s1", after=last - 1):
        assert seqs(batch) == [last, last + 1]
        break


async def test_a_cursor_in_a_gap_goes_on_behind_it(store: Store) -> None:
    """P7: by reading and by following, also for a follower that stands there while the log is thinned."""
    await stored(store, old_run(new_scene(), "r1", "one ", "two ", "three"))
    last = await store.last_seq("s1")
    follower = store.follow("s1", after=13)
    await thin(store)
    assert seqs(await anext(aiter(follower))) == list(range(15, last + 1))
    for after in range(12, 15):
        assert seqs(await store.read("s1", after=after)) == list(range(15, last + 1))
        assert seqs(await store.read("s1", after=after, limit=1)) == [15]
    assert seqs(await store.read("s1", after=7, limit=3)) == [8, 11, 12]


async def test_what_is_not_whole_elsewhere_not_in_a_row_or_not_old_stays(store: Store) -> None:
    """P1: a stretch without its end, tool output, a delta behind another event, a run that ended later."""
    scene = new_scene()
    scene.send("hi", run_id="r1")
    scene.call()
    scene.pieces("lost ", "words")
    scene.stalls()
    scene.attempt()
    scene.pieces("a")
    scene.say_while_busy("wait", message_id="m9", mode="queue")
    scene.pieces("b", "c")
    scene.of_run(e.TextDone, segment=0, text="abc")
    scene.pieces("no ", "end", segment=2)
    scene.asks_tool("t1")
    scene.starts_tool("t1")
    for line in ("1\n", "2\n"):
        scene.of_run(e.ToolOutput, tool_call_id="t1", text=line)
    scene.ends_tool("t1", "1\n2\n")
    scene.ends("cancelled")
    ended_ms = scene.ms
    old_run(scene, "r2", "x", "y")
    await stored(store, scene)
    assert await thin(store, before_ms=ended_ms) == 0
    assert await thin(store, before_ms=ended_ms + 1) == 1
    kept = [text for _, text in texts(await store.read("s1"))]
    assert kept == ["lost ", "words", "a", "bc", "no ", "end", "let ", "me ", "see", "x", "y"]
    outputs = [r for r in await store.read("s1") if isinstance(r.event, e.ToolOutput)]
    assert len(outputs) == 2
    assert await thin(store) == 3


async def test_no_text_is_taken_from_anyone(lab: Lab) -> None:
    """P1: see the check, which a wrong store fails."""
    await check_thinning_takes_no_text_from_anyone(lab)


async def test_one_delta_takes_up_only_so_many_and_so_much(store: Store) -> None:
    """P10: neither an event nor a transaction grows without bound."""
    many = ["x"] * (2 * STRETCH_RECORDS_MAX + 3)
    large = ["y" * (STRETCH_CHARS_MAX // 2 + 1)] * 3
    await stored(store, old_run(new_scene(), "r1", *many, *large))
    assert await thin(store) == 2 + len([*many, *large]) - 5
    kept = [len(text) for _, text in texts(await store.read("s1"))]
    assert kept[1:3] == [STRETCH_RECORDS_MAX] * 2
    assert kept[3:] == [3 + len(large[0]), len(large[1]), len(large[2])]
    assert await thin(store) == 0


async def test_sessions_are_to_be_thinned_until_they_were_and_again_when_they_go_on(store: Store) -> None:
    scene = old_run(new_scene(), "r1", "one ", "two")
    await stored(store, scene)
    await stored(store, old_run(new_scene(), "r2", "one ", "two"), "s2")
    await store.append("young", [created(at_ms=LATE_MS)])
    await store.append("s2", [e.SessionDeleted(at_ms=AT_MS + 1, purge_at_ms=LATE_MS)])
    assert list(await store.unthinned(before_ms=LATE_MS)) == ["s1"]
    assert list(await store.unthinned(before_ms=AT_MS)) == []
    assert await thin(store) == 3
    assert list(await store.unthinned(before_ms=LATE_MS)) == []
    assert list(await store.unthinned(before_ms=LATE_MS + 1)) == ["young"]
    later = Scene(ms=LATE_MS, seq=scene.seq, calls=scene.calls, attempts=scene.attempts)
    await stored(store, old_run(later, "r3", "three ", "four"))
    await stored(store, old_run(new_scene(), "r4", "x"), "s3")
    assert list(await store.unthinned(before_ms=LATE_MS, limit=1)) == ["s3"]
    assert list(await store.unthinned(before_ms=2 * LATE_MS)) == ["s1", "young", "s3"]
    assert await thin(store, before_ms=2 * LATE_MS) == 3
    assert await thin(store, "nowhere") == 0


async def test_a_thinning_that_is_left_at_any_step_is_ended_by_the_next_owner(lab: Lab) -> None:
    """P6: each step is whole by itself, and so is the log after it."""
    store = await lab.open()
    gone, whole = dict.fromkeys(range(6), 0), dict[int, int]()
    for steps in gone:
        scene = new_scene()
        for nth in range(3):
            old_run(scene, f"{steps}.{nth}", *[f"{nth}.{piece} " for piece in range(400)])
        await stored(store, scene, f"s{steps}")
        whole[steps] = await length(store, f"s{steps}")
        async with aclosing(store.thin(f"s{steps}", before_ms=LATE_MS)) as thinning:
            for _ in range(steps):
                gone[steps] += await anext(thinning, 0)
    await store.close()
    store = await lab.open()
    for steps in gone:
        assert await length(store, f"s{steps}") == whole[steps], steps
        assert gone[steps] + await thin(store, f"s{steps}") == 3 * (399 + 2), steps
        assert await length(store, f"s{steps}") == whole[steps], steps
    await store.close()


async def length(store: Store, session_id: str) -> int:
    return sum(len(text) for _, text in texts(await store.read(session_id, limit=5_000)))


async def test_appends_and_reads_go_on_while_a_log_is_thinned(store: Store) -> None:
    """P2, P10: between two steps anyone may write, to the same session too."""
    scene = new_scene()
    for nth in range(4):
        old_run(scene, f"r{nth}", *["word "] * 400)
    await stored(store, scene)
    fence = await begin(store, "s2", run_id="r9")
    said = 0
    async for _ in store.thin("s1", before_ms=LATE_MS):
        delta = e.TextDelta(at_ms=AT_MS, run_id="r9", segment=0, text="live")
        appended, _, read = await asyncio.gather(
            store.append_run("s2", [delta], fence=fence),
            store.append("s1", [message(f"meanwhile {said}", at_ms=LATE_MS)]),
            store.read("s1", limit=5_000),
        )
        said += 1
        assert appended == Appended(2 + said, 2 + said)
        assert seqs(read) == sorted(set(seqs(read)))
    assert said
    assert await store.last_seq("s1") == scene.seq + said
    assert len(texts(await store.read("s1"))) == 4 * 2


async def test_a_session_made_anew_under_the_same_id_is_not_touched(store: Store) -> None:
    """P1: what was planned for a log that is purged meanwhile does nothing to the next one."""
    scene = old_run(new_scene(), "r1", *["word "] * 800)
    await stored(store, scene)
    thinning = store.thin("s1", before_ms=LATE_MS)
    await anext(thinning)
    await store.purge("s1")
    await stored(store, old_run(new_scene(), "r2", *["other "] * 800))
    before = [record.body for record in await store.read("s1", limit=5_000)]
    async for _ in thinning:
        pass
    assert [record.body for record in await store.read("s1", limit=5_000)] == before
    assert list(await store.unthinned(before_ms=LATE_MS)) == ["s1"]
