"""Sessions that are forked, renamed, searched and taken back at awkward moments."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from holdfast.chaos import ChaosServer, Hang, Say
from holdfast.folds.rows import SessionRow
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.redaction import Redactor
from serving import PATIENT, Served, Setting, limited, served, target_of
from stores import MemoryStore
from tables import for_each_row


async def seq_of(server: Served, session_id: str, kind: str) -> int:
    """The seq of the only event of its kind."""
    _, log = await server.get(f"/api/sessions/{session_id}/events?limit=1000")
    (seq,) = [event["seq"] for event in log["events"] if event["type"] == kind]
    return seq


async def test_a_fork_has_the_title_that_was_asked_for_and_is_there_however_its_source_was_put_away() -> None:
    """P2: a fork that is made is a session to go on in."""
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
    ):
        await server.ended(await server.start(session_id="s"))
        path = "/api/sessions/s"
        await server.call("PATCH", path, body={"title": "another name", "archived": True})
        await server.post(path + "/queue/pause")
        for title, expected in (("mine", "mine"), ("", "another name"), ("\0m\x1b[2Jine\u202e\n", "mine")):
            _, fork = await server.post(path + "/fork", {"title": title})
            _, shown = await server.get(f"/api/sessions/{fork['id']}")
            assert (shown["title"], shown["archived"]) == (expected, False)
            assert not (await server.get(f"/api/sessions/{fork['id']}/queue"))[1]["paused"]
        await server.call("DELETE", path)
        await server.post(path + "/undelete")
        at_seq = await seq_of(server, "s", "session.deleted")
        _, fork = await server.post(path + "/fork", {"at_seq": at_seq})
        status, shown = await server.get(f"/api/sessions/{fork['id']}")
        assert (status, "purge_at" in shown) == (200, False)


async def test_a_fork_of_a_plain_clients_conversation_is_listed_and_kept() -> None:
    """Somebody made it to go on in it, so it is not for a while only."""
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
    ):
        body = {"messages": [{"role": "user", "content": "hi"}]}
        answer = await server.call("POST", "/v1/chat/completions", body=body)
        source = answer.headers["X-Hermes-Session-Id"]
        _, fork = await server.post(f"/api/sessions/{source}/fork", {})
        assert [one["id"] for one in (await server.get("/api/sessions"))[1]["data"]] == [fork["id"]]


async def test_a_fork_that_is_asked_for_twice_is_the_same_also_when_its_source_is_gone() -> None:
    """P2: the first answer may have been lost on the way."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        await server.post("/api/sessions", {"id": "s"})
        key = {"Idempotency-Key": "k"}
        first = await server.call("POST", "/api/sessions/s/fork", body={}, headers=key)
        await server.call("DELETE", "/api/sessions/s?now=true")
        again = await server.call("POST", "/api/sessions/s/fork", body={}, headers=key)
        assert (first.status, again.status, again.json) == (201, 201, first.json)


async def test_a_title_is_kept_whole_whether_it_came_first_or_later() -> None:
    """P12: what is taken is not cut, and what is too long is refused."""
    title = "x" * 200
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        await server.post("/api/sessions", {"id": "s", "title": title})
        renamed = await server.call("PATCH", "/api/sessions/s", body={"title": title.upper()})
        assert renamed.json["title"] == title.upper()
        assert (await server.get("/api/sessions"))[1]["data"][0]["title"] == title.upper()
        assert (await server.call("PATCH", "/api/sessions/s", body={"title": title + "x"})).status == 400


async def test_no_secret_is_kept_with_the_answer_that_a_second_request_gets() -> None:
    """P11: what is kept under an idempotency key is on disk like everything else."""
    disk, secret = MemoryDisk(), "sk-model-9f8e7d6c5b4a3210"
    setting = Setting(secrets=Redactor([secret]))
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos), store=MemoryStore(disk), setting=setting) as server,
    ):
        key = {"Idempotency-Key": "k"}
        answer = await server.call("POST", "/api/sessions", body={"title": f"use {secret}"}, headers=key)
        assert answer.status == 201
    assert disk.idempotency_keys
    assert secret not in str(disk.idempotency_keys)


async def test_a_search_says_whether_it_found_more_than_it_shows() -> None:
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        for n in range(3):
            await server.post("/api/sessions", {"title": f"zebra {n}"})
        for limit, more in ((2, True), (3, False)):
            _, found = await server.get(f"/api/sessions?q=zebra&limit={limit}")
            assert (len(found["data"]), found["has_more"]) == (min(limit, 3), more)


async def test_the_draft_of_a_deleted_session_is_hidden_until_it_is_back() -> None:
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        await server.post("/api/sessions", {"id": "s"})
        await server.call("PUT", "/api/sessions/s/draft", body={"text": "half a thought"})
        await server.call("DELETE", "/api/sessions/s")
        assert (await server.get("/api/sessions/s/draft"))[1] == {"text": ""}
        assert (await server.post("/api/sessions/s/undelete"))[0] == 200
        assert (await server.get("/api/sessions/s/draft"))[1] == {"text": "half a thought"}


class Leaping(SystemClock):
    """A clock by which everything lasts for a minute, while it is told so."""

    is_leaping = False
    ahead_s = 0

    def monotonic_s(self) -> float:
        self.ahead_s += 60 if self.is_leaping else 0
        return super().monotonic_s() + self.ahead_s


class LookedThrough(MemoryStore):
    """A store that tells how often it was looked through for what is to be purged."""

    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(disk)
        self.looks = asyncio.Semaphore(0)

    async def sessions_to_purge(self, *, source: str, before_ms: int) -> Sequence[SessionRow]:
        found = await super().sessions_to_purge(source=source, before_ms=before_ms)
        self.looks.release()
        return found


class SetClock(SystemClock):
    """A clock that somebody sets."""

    set_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.set_ms


async def test_a_deletion_can_be_taken_back_for_as_long_as_was_said_wherever_the_clock_is_set() -> None:
    """P3: not for a shorter time because somebody set the clock forward."""
    clock, store = SetClock(), LookedThrough(MemoryDisk())
    setting = Setting(store=store, clock=clock)
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        await server.post("/api/sessions", {"id": "s"})
        await server.post("/api/sessions", {"id": "t"})
        await store.looks.acquire()  # of the start
        await server.call("DELETE", "/api/sessions/s")
        await store.looks.acquire()
        clock.set_ms = 3_600_000
        for _ in range(2):  # in the second look the first is done with
            await server.call("DELETE", "/api/sessions/t")
            await store.looks.acquire()
            await server.post("/api/sessions/t/undelete")
        assert (await server.post("/api/sessions/s/undelete"))[0] == 200


async def test_a_purge_that_runs_hold_up_says_so_and_is_tried_again() -> None:
    """P3, P12: the session is hidden and its run asked to end; the disk is not to blame."""
    clock, disk = Leaping(), MemoryDisk()
    setting = replace(limited(undelete_s=0.4), clock=clock)
    async with (
        ChaosServer([Hang()]) as chaos,
        served(target_of(chaos, patience=PATIENT), store=MemoryStore(disk), setting=setting) as server,
    ):
        await server.start(session_id="s")
        await chaos.seen.until_request(1)
        follow = server.follow("/api/sessions/s/events")
        await anext(follow)
        clock.is_leaping = True
        answer = await server.call("DELETE", "/api/sessions/s?now=true")
        clock.is_leaping = False
        assert (answer.status, answer.code) == (503, "runs_go_on")
        assert answer.headers["Retry-After"]
        assert (await server.get("/api/sessions/s"))[0] == 404
        async for _ in follow:
            pass  # the stream ends with the session
    assert not disk.logs


class SlowMark(MemoryStore):
    """A store that keeps a read mark waiting."""

    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(disk)
        self.is_waiting, self.goes_on = asyncio.Event(), asyncio.Event()

    async def put_note(self, key: str, value: bytes) -> None:
        if key.endswith("/read"):
            self.is_waiting.set()
            await self.goes_on.wait()
        await super().put_note(key, value)


@for_each_row("again", ["nobody", "somebody"])
async def test_a_read_mark_that_meets_a_purge_goes_with_the_session(again: str) -> None:
    """P11, P12: nothing is left of it, and a session that has the same id since is unread."""
    disk = MemoryDisk()
    store = SlowMark(disk)
    async with ChaosServer() as chaos, served(target_of(chaos), store=store) as server:
        await server.post("/api/sessions", {"id": "s"})
        marking = asyncio.create_task(server.call("PATCH", "/api/sessions/s", body={"read_seq": 1}))
        await store.is_waiting.wait()
        assert (await server.call("DELETE", "/api/sessions/s?now=true")).status == 200
        if again == "somebody":
            await server.post("/api/sessions", {"id": "s"})
        store.goes_on.set()
        answer = await marking
        assert (answer.status, answer.code) == (404, "session_not_found")
        if again == "somebody":
            assert (await server.get("/api/sessions/s"))[1]["read_seq"] == 0
    assert not [key for key in disk.notes if key.startswith("session/")]
