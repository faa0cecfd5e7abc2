"""Lists of runs and the places of those that wait."""

from typing import Any

from msgspec.structs import replace

from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Gate, Hang, Say, Wait, insufficient_quota
from holdfast.runner.supervisor import RunnerLimits
from server.toolbox import Counted
from serving import PATIENT, AsksAbout, Served, Setting, limited, served, target_of
from stores import MemoryStore
from tables import for_each_row


async def pages(server: Served, **query: Any) -> list[list[str]]:
    """The ids of all pages."""
    found: list[list[str]] = []
    cursor = ""
    while True:
        words = "&".join(f"{name}={value}" for name, value in (query | {"cursor": cursor}).items())
        _, page = await server.get(f"/v1/runs?{words}")
        found.append([one["run_id"] for one in page["data"]])
        if not page["has_more"]:
            return found
        cursor = page["next_cursor"]


async def test_a_list_by_status_has_full_pages_however_rare_the_status_is() -> None:
    """P7: a page is short only if it is the last."""
    script = [[insufficient_quota()], *[[Say("x")]] * 5, [CallTool("touch", {})]]
    judge = AsksAbout(frozenset({"touch"}))
    setting = Setting(tools=(Counted(),), judge=judge)
    async with (
        ChaosServer(*script) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=setting) as server,
    ):
        failed = await server.start()
        assert (await server.ended(failed))["status"] == "failed"
        completed: list[str] = []
        for _ in range(5):
            completed.append(await server.start(session_id="s"))
            await server.ended(completed[-1])
        asking = await server.start()
        await server.until(asking, "approval.request")
        newest_first = completed[::-1]
        assert await pages(server, status="failed", limit=1) == [[failed]]
        assert await pages(server, status="completed", limit=2) == [
            newest_first[:2],
            newest_first[2:4],
            newest_first[4:],
        ]
        assert await pages(server, status="completed", limit=3, session_id="s") == [
            newest_first[:3],
            newest_first[3:],
        ]
        assert await pages(server, status="waiting_for_approval", limit=1) == [[asking]]
        assert await pages(server, status="running", limit=1) == [[]]
        unknown = await server.call("GET", "/v1/runs?status=perhaps")
        assert (unknown.status, unknown.json["error"]["param"]) == (400, "status")


async def test_each_run_that_waits_for_a_slot_has_a_place_of_its_own() -> None:
    """P3: whoever waits sees how many are before them."""
    gate = Gate()
    setting = Setting(runner=RunnerLimits(runs_max=1))
    async with (
        ChaosServer([Wait(gate), Say("x")], [Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT), setting=setting) as server,
    ):
        first = await server.start("one", session_id="a")
        await gate.reached()
        waiting = [await server.start("more", session_id=name) for name in ("b", "c", "d")]
        behind = await server.start("and more", session_id="b")
        own = await server.start("later", session_id="a")
        places = [(await server.get(f"/v1/runs/{one}"))[1].get("queue_position") for one in waiting]
        assert places == [1, 2, 3]
        assert (await server.get(f"/v1/runs/{behind}"))[1]["queue_position"] == 2
        assert (await server.get(f"/v1/runs/{own}"))[1]["queue_position"] == 1
        gate.open()
        for run_id in (first, *waiting, behind, own):
            shown = await server.ended(run_id)
            assert (shown["status"], "queue_position" in shown) == ("completed", False)


@for_each_row("crashes", [1, 2])
async def test_a_run_that_waits_for_its_turn_after_a_crash_is_queued_and_says_why(crashes: int) -> None:
    """P3: it was under way before, and is not now: for want of a slot, or suspected of the crashes."""
    store = MemoryStore()
    for name in ("a", "b"):
        run_id = f"run_{name}"
        said = e.MessageAccepted(at_ms=1, message_id=f"m{name}", text="hi")
        queued = e.RunQueued(at_ms=1, run_id=run_id, message_id=f"m{name}")
        await store.append(name, [e.SessionCreated(at_ms=1, epoch="e"), said, queued])
        given = e.MessageDispatched(at_ms=1, run_id=run_id, message_id=f"m{name}")
        resumed = [e.RunResumed(at_ms=1, run_id=run_id, after="crash")] * crashes
        begun = [given, e.RunStarted(at_ms=1, run_id=run_id), *resumed]
        await store.append_run(name, begun, fence=await store.claim(name))
    setting = replace(limited(live_after_s=0.0, live_every_s=0.01), runner=RunnerLimits(runs_max=1))
    async with (
        ChaosServer([Hang()], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT), store=store, setting=setting) as server,
    ):
        await chaos.seen.until_body(1)
        _, listed = await server.get("/v1/runs")
        states = {run["run_id"]: run["status"] for run in listed["data"]}
        assert sorted(states.values()) == ["queued", "running"]
        waiting = next(run_id for run_id, status in states.items() if status == "queued")
        _, shown = await server.get(f"/v1/runs/{waiting}")
        assert (shown["status"], shown["queue_position"]) == ("queued", 1)
        reason = "crashed 2 times in a row" if crashes > 1 else "other runs are using all slots"
        assert reason in shown["queue_reason"]
        assert next(run for run in listed["data"] if run["run_id"] == waiting)["queue_reason"]
        live = (frame async for frame in server.frames(waiting) if frame.data["event"] == "live")
        assert reason in (await anext(live)).data["text"]
        await live.aclose()
