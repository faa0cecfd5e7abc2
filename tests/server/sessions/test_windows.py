"""What the page needs to open a session: a window, a part of the log, and news while no session is open."""

import asyncio
from collections.abc import Sequence
from typing import Any

from holdfast.chaos import CallTool, ChaosServer, Gate, Say, Wait
from holdfast.interfaces.index import ListedSession
from holdfast.interfaces.journal import StoreFailed
from server.toolbox import Counted
from serving import PATIENT, AsksAbout, Served, Setting, served, target_of
from stores import MemoryStore


async def test_the_newest_page_holds_all_that_a_client_needs_to_go_on_from_its_seq() -> None:
    """P7: the queue, the open runs with the texts that grow, sums; and the events after it follow on."""
    gate = Gate()
    scripts = ([Say("one")], [Say("half"), Wait(gate)], [Say("three")])
    async with ChaosServer(*scripts) as chaos, served(target_of(chaos, patience=PATIENT)) as server:
        await server.ended(await server.start("first", session_id="s"))
        running = await server.start("second", session_id="s")
        await gate.reached()
        await server.start("third", session_id="s", client_id="c3")
        page = await _page_with(server, "half")
        growing = page["data"][-1]
        assert (growing["kind"], growing["done"]) == ("text", False)
        run = next(run for run in page["runs"] if run["run_id"] == running)
        assert (run["phase"], run["texts"]) == ("running", [growing["seq"]])
        assert [message["client_id"] for message in page["waiting"]] == ["c3"]
        assert page["session"]["open_runs"] == 2
        assert page["usage"]["output_tokens"] > 0
        assert page["queue_paused"] is False
        gate.open()
        async for frame in server.follow(f"/api/sessions/s/events?after={page['last_seq']}"):
            if frame.id:  # a change of the list may be told aside, and is no event of the log
                assert frame.id == page["last_seq"] + 1
                break


async def _page_with(server: Served, text: str) -> dict[str, Any]:
    """The newest page, once it shows this text."""
    while True:
        _, page = await server.get("/api/sessions/s/messages?limit=2")
        if any(entry.get("text") == text for entry in page["data"]):
            return page


class SlowToList(MemoryStore):
    """A store that keeps whoever looks for versions of a session waiting at a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    async def session_ids(self, prefix: str, *, limit: int = 200) -> Sequence[str]:
        await self.gate.passed()
        return await super().session_ids(prefix, limit=limit)


async def test_a_page_is_of_one_moment_however_much_happens_while_it_is_made() -> None:
    """P7: a message that waited when the page was begun, and is answered by now, isn't missing from it."""
    gate, store = Gate(), SlowToList()
    async with (
        ChaosServer([Say("one"), Wait(gate)], [Say("two")]) as chaos,
        served(target_of(chaos, patience=PATIENT), store=store) as server,
    ):
        await server.start("first", session_id="s")
        await gate.reached()
        second = await server.start("second", session_id="s", client_id="c2")
        asked = asyncio.create_task(server.get("/api/sessions/s/messages"))
        await store.gate.reached()
        gate.open()
        await server.ended(second)
        store.gate.open()
        _, page = await asked
        assert page["waiting"] == []
        kinds = [entry["kind"] for entry in page["data"] if entry["kind"] in {"person", "text"}]
        assert kinds == ["person", "text"] * 2
        _, rest = await server.get(f"/api/sessions/s/events?after={page['last_seq']}&limit=9")
        assert "message.dispatched" not in str(rest["events"])
    await store.close()


async def test_the_newest_page_is_longer_than_asked_for_where_more_can_still_change() -> None:
    """Two approvals are open and one entry is asked for: both cards and both tools come along."""
    calls = [CallTool("touch", {"path": "a"}), CallTool("touch", {"path": "b"})]
    setting = Setting(tools=(Counted(),), judge=AsksAbout(frozenset({"touch"})))
    async with ChaosServer(calls) as chaos, served(target_of(chaos), setting=setting) as server:
        run_id = await server.start("go", session_id="s")
        while len((await server.get("/v1/approvals"))[1]["data"]) < 2:
            pass
        _, page = await server.get("/api/sessions/s/messages?limit=1")
        assert [entry["kind"] for entry in page["data"]] == ["tool", "tool", "ask", "ask"]
        _, older = await server.get(f"/api/sessions/s/messages?limit=1&before={page['next_before']}")
        assert [entry["kind"] for entry in older["data"]] == ["person"]
        assert [run["run_id"] for run in older["runs"]] == [run_id]


async def test_a_part_of_the_log_is_read_at_once_with_its_sizes() -> None:
    async with ChaosServer([Say("one")]) as chaos, served(target_of(chaos)) as server:
        await server.ended(await server.start("first", session_id="s"))
        _, part = await server.get("/api/sessions/s/events?after=2&limit=3")
        assert [event["seq"] for event in part["events"]] == [3, 4, 5]
        assert part["last_seq"] > 5
        assert all(size > 20 for size in part["bytes"])
        answer = await server.call("GET", "/api/sessions/s/events?limit=many")
        assert (answer.status, answer.json["error"]["param"]) == (400, "limit")


async def test_who_has_no_session_open_hears_of_changes_of_the_list() -> None:
    async with ChaosServer([Say("one")]) as chaos, served(target_of(chaos)) as server:

        async def heard() -> str:
            async for frame in server.follow("/api/events"):
                assert frame.id == 0, "news is no part of a log"
                return frame.data["session"]["id"]
            raise AssertionError("the stream ended")

        hearing = asyncio.create_task(heard())
        await server.until_streams(1)
        await server.start("hello", session_id="s")
        assert await hearing == "s"


class SickOfReading(MemoryStore):
    """A store that cannot read the row of one session."""

    async def listed(self, session_id: str) -> ListedSession | None:
        if session_id == "sick":
            raise StoreFailed("the disk cannot be read")
        return await super().listed(session_id)


async def test_a_row_that_cannot_be_read_keeps_nobody_from_hearing_of_the_next() -> None:
    """P10: one bad read, and the list still changes by itself."""
    store = SickOfReading()
    async with ChaosServer() as chaos, served(target_of(chaos), store=store) as server:
        hearing = asyncio.ensure_future(anext(aiter(server.follow("/api/events"))))
        await server.until_streams(1)
        for session_id in ("sick", "s"):
            await server.post("/api/sessions", {"id": session_id})
        assert (await hearing).data["session"]["id"] == "s"
