"""Lost responses: what a dead process had said is shown as soon as it can be read, in its place, once."""

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait
from holdfast.folds.transcript import LOST, RECOVERED, RECOVERING
from holdfast.interfaces.journal import Record
from scene import Scene
from seeds.lost import (
    EARLIER_MESSAGES,
    Place,
    Serving,
    interrupted,
    locked,
    said,
    scene_with_past,
    serving,
)
from serving import served, target_of
from stores import SqliteStore

READERS = 20
NEVER_SAID = "no agent output was recovered"


async def placed(folder: Path, chaos: ChaosServer) -> Place:
    place = Place(folder)
    await asyncio.to_thread(place.configure, chaos)
    return place


async def read_often(server: Serving, session_id: str) -> dict[str, Any]:
    """What twenty readers at once see, twice: the same for all."""

    async def one() -> list[dict[str, Any]]:
        return [await server.messages(session_id) for _ in range(2)]

    seen = [
        answer for answers in await asyncio.gather(*[one() for _ in range(READERS)]) for answer in answers
    ]
    assert all(answer == seen[0] for answer in seen)
    assert NEVER_SAID not in str(seen[0]).lower()
    return seen[0]


async def inputs_are_refused_clearly(server: Serving, session_id: str) -> None:
    answer = await server.ask("POST", "/v1/runs", {"input": "hi", "session_id": session_id})
    assert (answer.status, answer.code) == (503, "store_unavailable")
    assert "write lock" in answer.json["error"]["message"]
    assert int(answer.headers["Retry-After"]) > 0
    assert (await server.get("/health"))["status"] == "ok"
    health = await server.get("/health/detailed")
    assert (health["status"], health["store"]["writable"], health["store"]["late"]) == (
        "degraded",
        False,
        True,
    )


def is_gap_free(log: list[dict[str, Any]]) -> bool:
    seqs = [event["seq"] for event in log]
    return seqs == list(range(seqs[0], seqs[0] + len(seqs)))


async def test_killed_in_mid_answer_while_the_store_is_locked_it_starts_shows_and_goes_on(
    tmp_path: Path,
) -> None:
    """S002-1, S002-2, S002-3, S002-7, P1, P2, P6: both halves come back, in order, before the resumption."""
    first, second, never = Gate(), Gate(), Gate()
    answer = [Say("so: "), Wait(first), Say("first half, "), Wait(second), Say("second half"), Wait(never)]
    async with ChaosServer(answer, [Say("the whole answer")]) as chaos:
        place = await placed(tmp_path, chaos)
        await place.log("s", scene_with_past())
        async with serving(place, end_with=signal.SIGKILL) as server:
            run_id = await server.start("s", "the last question")
            await server.until_type(f"/v1/runs/{run_id}/events?view=native", "text.delta")
            await first.reached()
            async with locked(place) as release:
                first.open()
                await place.until_spooled("first half")
                second.open()
                await place.until_spooled("second half")
                server.process.kill()
                await server.process.wait()
                async with serving(place, end_with=signal.SIGTERM) as again:
                    await reads_work_and_nothing_changes(again, place, run_id)
                    path = f"/api/sessions/s/events?after={(await again.messages('s'))['last_seq']}"
                    async with again.following(path) as reader:
                        await release()
                        seen = await reader.until(lambda event: event["type"] == "run.ended")
                    shown = await again.messages("s")
                    assert (
                        await again.ask("POST", "/v1/runs", {"input": "on", "session_id": "s"})
                    ).status == 202
    assert again.process.returncode == 0
    types = [event["type"] for event in seen]
    text = "".join(event["text"] for event in seen if event["type"] == "text.delta")
    assert text == "first half, second halfthe whole answer", "what was there before was not said again"
    assert types.index("text.delta") < types.index("run.resumed") < types.index("attempt.superseded")
    assert types.count("run.resumed") == types.count("run.ended") == 1
    assert is_gap_free(seen)
    assert said(shown, of=run_id) == ["> the last question", "! resumed", "the whole answer", "= completed"]
    assert "marks" not in shown


async def reads_work_and_nothing_changes(server: Serving, place: Place, run_id: str) -> None:
    await inputs_are_refused_clearly(server, "s")
    (listed,) = (await server.get("/api/sessions"))["data"]
    assert (listed["id"], listed["message_count"], listed["open_runs"]) == ("s", EARLIER_MESSAGES // 2 + 1, 1)
    spooled = await asyncio.to_thread(place.spool_bytes)
    before = await server.events(run_id)
    seen = await read_often(server, "s")
    assert seen["marks"] == {run_id: RECOVERING}
    assert said(seen, of=run_id) == ["> the last question", "so: "]
    assert len([entry for entry in seen["data"] if "role" in entry]) == EARLIER_MESSAGES + 2
    shown = await server.get(f"/v1/runs/{run_id}")
    assert (shown["status"], shown["mark"]) == ("running", RECOVERING)
    assert await server.events(run_id) == before
    assert await asyncio.to_thread(place.spool_bytes) == spooled


async def test_a_tool_that_ended_while_the_store_was_locked_has_ended_after_kill_and_restart(
    tmp_path: Path,
) -> None:
    """S002-1, P6: its card is finished above the mark, the model hears its result, and it ran once."""
    gate = Gate()
    script = [CallTool("shell", {"command": "cat pipe"}, id="t1")]
    async with ChaosServer(script, [Wait(gate), Say("it says so")]) as chaos:
        place = await placed(tmp_path, chaos)
        pipe = tmp_path / "pipe"
        await asyncio.create_subprocess_exec("mkfifo", str(pipe))
        async with serving(place, end_with=signal.SIGKILL) as server:
            run_id = await server.start("s")
            await server.until_type(f"/v1/runs/{run_id}/events?view=native", "tool.started")
            async with locked(place) as release:
                await asyncio.to_thread(pipe.write_text, "out of the pipe")
                await place.until_spooled("tool.ended")
                server.process.kill()
                await server.process.wait()
                async with serving(place, end_with=signal.SIGTERM) as again:
                    assert (await again.messages("s"))["marks"] == {run_id: RECOVERING}
                    await release()
                    await gate.reached()
                    resumed = await again.messages("s")
                    gate.open()
                    await again.until_type(f"/v1/runs/{run_id}/events?view=native", "run.ended")
    (start, card, mark) = said(resumed, of=run_id)
    assert start == "> hi"
    assert card.startswith("[shell ended")
    assert "out of the pipe" in card
    assert mark == f"! resumed <{RECOVERED}>"
    assert len(chaos.seen.requests) == 2
    assert "out of the pipe" in str(chaos.seen.requests[1].body)


async def test_text_and_a_finished_tool_card_come_back_above_the_mark_and_the_run_resumes(
    tmp_path: Path,
) -> None:
    """S002-1, S002-2, S002-3: many readers, one recovery, and no trace of the waiting."""
    gate = Gate()
    async with ChaosServer([Wait(gate), Say("Done.")]) as chaos:
        place = await placed(tmp_path, chaos)
        scene = interrupted()
        await place.log("s", scene)
        late = Scene(ms=scene.ms, run_id="rx")
        late.text("I look. ")
        late.asks_tool("t1", command="ls")
        late.of_run(e.CallEnded, call_id=f"c{scene.calls}", finish="tools")
        late.starts_tool("t1")
        late.ends_tool("t1", "a file")
        events = [event for _, event in late.log]
        await place.spooled("s", "rx", events[:2], events[2:])
        async with locked(place) as release, serving(place, end_with=signal.SIGTERM) as server:
            waiting = await read_often(server, "s")
            assert waiting["marks"] == {"rx": RECOVERING}
            await release()
            await gate.reached()
            resumed = await server.messages("s")
            gate.open()
            await server.until_type("/v1/runs/rx/events?view=native", "run.ended")
            ended = await server.messages("s")
    above = ["> the last question", "I look. ", "[shell ended a file]", f"! resumed <{RECOVERED}>"]
    assert said(resumed, of="rx") == above
    assert said(ended, of="rx") == [*above, "Done.", "= completed"]
    assert "marks" not in resumed


async def test_what_is_sealed_empty_or_too_old_is_said_to_be_lost_however_often_it_is_read(
    tmp_path: Path,
) -> None:
    """S002-4, S002-5, S002-6: neutral words, no tries that could be used up, and new input is taken."""
    async with ChaosServer([Say("after a day")], [Say("on it")]) as chaos:
        place = await placed(tmp_path, chaos)
        sealed, old = interrupted(), interrupted("-old-", age_s=25 * 3600)
        sealed.ends("interrupted", cause="crash_loop")
        await place.log("sealed", sealed)
        await place.log("old", old)
        async with locked(place) as release, serving(place, end_with=signal.SIGTERM) as server:
            empty = await read_often(server, "sealed")
            gone = await read_often(server, "old")
            await release()
            await server.until_type("/v1/runs/r-old-x/events?view=native", "run.ended")
            run_id = await server.start("sealed")
            await server.until_type(f"/v1/runs/{run_id}/events?view=native", "run.ended")
            after = await server.messages("sealed")
    assert said(empty, of="rx")[-1] == f"= interrupted <{LOST}>"
    assert "marks" not in empty
    assert gone["marks"] == {"r-old-x": LOST}
    assert said(after, of="rx") == said(empty, of="rx")
    assert said(after, of=run_id) == ["> hi", "on it", "= completed"]


class Counting(SqliteStore):
    """A store that knows how much of what its runs did was read, from memory or from the file."""

    reads = 0

    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        found = await super().read(session_id, after=after, limit=limit)
        # What people said may be looked up at any time: lists show it, and it was never lost.
        self.reads += sum(not isinstance(record.event, e.MessageAccepted | e.RunQueued) for record in found)
        return found


async def test_what_is_too_old_is_said_to_be_lost_without_reading_the_journal_again(tmp_path: Path) -> None:
    """S002-6: however many look, and however they look, the log is read for the first of them alone."""
    async with ChaosServer() as chaos:
        place = await placed(tmp_path, chaos)
        await place.log("old", interrupted("-old-", age_s=25 * 3600))
        async with locked(place):
            store = await Counting.open_readable(place.store)
            assert isinstance(store, Counting)
            async with served(target_of(chaos), store=store) as server:
                paths = ("/api/sessions/old/messages?limit=500", "/v1/runs/r-old-x")
                first = [(await server.get(path))[1] for path in paths]
                assert (first[0]["marks"], first[1]["mark"]) == ({"r-old-x": LOST}, LOST)
                reads = store.reads
                assert reads > 0
                for path, seen in zip(paths, first, strict=True):
                    again = await asyncio.gather(*[server.get(path) for _ in range(READERS)])
                    assert all(answer == seen for _, answer in again)
                assert store.reads == reads
            await store.close()


async def test_halves_that_come_at_different_times_are_both_shown_and_a_torn_record_takes_nothing_along(
    tmp_path: Path,
) -> None:
    """S002-7, S002-8, P6: reading again after more came shows more, and no seq is used twice."""
    async with ChaosServer([Say("on it")]) as chaos:
        place = await placed(tmp_path, chaos)
        scene = interrupted()
        scene.ends("interrupted", cause="crash_loop")
        await place.log("s", scene)
        await place.spooled("s", "rx", [_late("first half, ")], [_late("never acknowledged, ")])
        await asyncio.to_thread(_tear, place)
        async with serving(place, end_with=signal.SIGTERM) as server:
            once = await server.messages("s")
        await place.spooled("s", "rx", [_late("second half")])
        async with serving(place, end_with=signal.SIGTERM) as server:
            twice = await server.messages("s")
            run_id = await server.start("s")
            log = await server.until_type("/api/sessions/s/events", "run.ended")
            while log[-1]["run_id"] != run_id:
                log = await server.until_type(f"/api/sessions/s/events?after={log[-1]['seq']}", "run.ended")
            whole = (await server.get("/api/sessions/s/export"))["events"]
    assert said(once, of="rx") == ["> the last question", "first half, ", f"= interrupted <{RECOVERED}>"]
    assert said(twice, of="rx")[1:] == ["first half, second half", f"= interrupted <{RECOVERED}>"]
    assert is_gap_free(whole)
    assert [event["type"] for event in whole].count("output.recovered") == 2


def _late(text: str) -> e.TextDelta:
    return e.TextDelta(at_ms=1, run_id="rx", segment=1, text=text)


def _tear(place: Place) -> None:
    (path,) = place.spool.glob("*.spool")
    path.write_bytes(path.read_bytes()[:-7])
