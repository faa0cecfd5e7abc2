"""Cursors of a session that was purged and made again under the same id (P7)."""

import asyncio
from contextlib import aclosing

from holdfast.client import Client
from holdfast.client.updates import Seen
from holdfast.events import SessionCreated
from serving import Served, served
from tables import for_each_row


async def made(server: Served, *, renames: int) -> str:
    """A session with so many further events; its epoch."""
    status, answer = await server.post("/api/sessions", {"id": "s", "title": "0"})
    assert status == 201, answer
    for nth in range(renames):
        await server.call("PATCH", "/api/sessions/s", body={"title": f"name {nth}"})
    return (await server.get("/api/sessions/s"))[1]["epoch"]


async def purged(server: Served) -> None:
    """It is gone, with everything in it."""
    await server.call("DELETE", "/api/sessions/s?now=true")
    while (await server.call("GET", "/api/sessions/s")).status != 404:
        pass


async def first_id(server: Served, cursor: str, *, as_header: bool) -> int:
    """The id of the first event after the cursor."""
    path = "/api/sessions/s/events" if as_header else f"/api/sessions/s/events?after={cursor}"
    frames = server.follow(path, headers={"Last-Event-ID": cursor} if as_header else None)
    async with aclosing(frames) as found:
        async for frame in found:
            if frame.id:
                return frame.id
    raise AssertionError("nothing came")


@for_each_row("as_header", [False, True])
async def test_a_cursor_of_an_earlier_log_is_answered_from_the_start(*, as_header: bool) -> None:
    async with served() as server:
        before = await made(server, renames=4)
        assert await first_id(server, f"3@{before}", as_header=as_header) == 4
        await purged(server)
        now = await made(server, renames=8)
        assert now != before
        assert await first_id(server, f"3@{before}", as_header=as_header) == 1
        assert await first_id(server, f"3@{now}", as_header=as_header) == 4
        assert await first_id(server, "3", as_header=as_header) == 4, "a plain number is a cursor as ever"


async def test_whoever_polls_is_told_the_epoch_and_begins_anew_with_another() -> None:
    async with served() as server:
        await made(server, renames=4)
        _, page = await server.get("/api/sessions/s/events?limit=3")
        cursor = f"{page['events'][-1]['seq']}@{page['epoch']}"
        _, page = await server.get(f"/api/sessions/s/events?limit=3&after={cursor}")
        assert [one["seq"] for one in page["events"]] == [4, 5]
        await purged(server)
        await made(server, renames=8)
        _, page = await server.get(f"/api/sessions/s/events?limit=3&after={cursor}")
        assert [one["seq"] for one in page["events"]] == [1, 2, 3]
        assert not cursor.endswith(page["epoch"])


@for_each_row("unknown", ["99999", "5@", "-1", "three"])
async def test_a_cursor_that_the_log_does_not_have_begins_at_the_start_for_every_reader(unknown: str) -> None:
    """P7: a replay repeats events, a wait for a number that never comes would skip them."""
    async with served() as server:
        await made(server, renames=4)
        assert await first_id(server, unknown, as_header=True) == 1
        _, page = await server.get(f"/api/sessions/s/events?limit=3&after={unknown}")
        assert [one["seq"] for one in page["events"]] == [1, 2, 3]
        _, page = await server.get("/api/sessions/s/events?limit=3&after=5")
        assert page["events"] == [], "the end of the log is a place in it"


@for_each_row("after", [0, 2])
async def test_a_client_that_follows_sees_the_new_log_whole(after: int) -> None:
    """P7: also one that began at a plain number."""
    async with served() as server, Client(server.url) as client:
        before = await made(server, renames=4)
        seen: list[Seen] = []
        is_caught_up = asyncio.Event()
        is_whole = asyncio.Event()

        async def follow() -> None:
            async with aclosing(client.watch_session("s", after=after)) as heard:
                async for one in heard:
                    if isinstance(one, Seen):
                        seen.append(one)
                        is_caught_up.set() if one.seq == 5 else None
                        is_whole.set() if one.seq == 9 else None

        following = asyncio.create_task(follow())
        await is_caught_up.wait()
        assert [one.seq for one in seen] == list(range(after + 1, 6))
        seen.clear()
        async with server.http.delete(f"{server.url}/api/sessions/s?now=true"):
            await made_again(server, renames=8)
        await is_whole.wait()
        assert [one.seq for one in seen] == list(range(1, 10))
        first = seen[0].event
        assert isinstance(first, SessionCreated)
        assert first.epoch != before
        following.cancel()
        await asyncio.wait({following})


async def made_again(server: Served, *, renames: int) -> None:
    """The session as soon as its name is free, before anyone hears that there is none."""
    while (await server.call("POST", "/api/sessions", body={"id": "s", "title": "0"})).status != 201:
        pass
    for nth in range(renames):
        await server.call("PATCH", "/api/sessions/s", body={"title": f"name {nth}"})


@for_each_row("cursor", ["x", "3@", "@", "-1", "3@a@b", "9" * 30])
async def test_what_is_no_cursor_begins_at_the_start_or_where_its_number_says(cursor: str) -> None:
    """P12: nothing is skipped, and nothing fails."""
    async with served() as server:
        await made(server, renames=4)
        assert await first_id(server, cursor, as_header=True) in {1, 4}
