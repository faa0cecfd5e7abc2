"""Lists of runs and the places of those that wait."""

from typing import Any

from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait, insufficient_quota
from holdfast.runner.supervisor import RunnerLimits
from server.toolbox import Counted
from serving import PATIENT, AsksAbout, Served, Setting, served, target_of


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
