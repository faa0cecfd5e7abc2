"""Two servers on one store: what one learns of keys, sign-ins and grants, the other obeys."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from holdfast.agent.policy import AlwaysGrants
from holdfast.chaos import ChaosServer, Gate, Say, Wait
from holdfast.interfaces.journal import StoreFull
from holdfast.interfaces.nodes import Node
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.journal.shared_notes import LOOKS_MAX, SharedNotes
from holdfast.server.access.keys import AddedKeys, KeyExists
from holdfast.server.options import ApiKey, ServerOptions
from holdfast.values import GrantRule
from serving import Served, Setting, served, target_of
from stores import MemoryStore

SECRET = "sk-secret-of-the-owner"  # noqa: S105  # the key of a server that lives for a test
OWNER = {"Authorization": f"Bearer {SECRET}"}


class OneOfTwo(MemoryStore):
    """A store that says that other nodes share it."""

    refuses_marks = False
    looks = 0

    @property
    def node(self) -> Node:
        return Node(name="one of two")

    async def note(self, key: str) -> bytes | None:
        self.looks += key.startswith("changed/")
        return await super().note(key)

    async def put_note(self, key: str, value: bytes) -> None:
        if self.refuses_marks and key.startswith("changed/"):
            raise StoreFull("no room")
        await super().put_note(key, value)


class QuickClock(SystemClock):
    """Its seconds pass at once, but others get a turn."""

    async def sleep_s(self, seconds: float) -> None:
        del seconds
        await asyncio.sleep(0.001)


@asynccontextmanager
async def two_nodes(chaos: ChaosServer) -> AsyncGenerator[tuple[Served, Served]]:
    disk, options = MemoryDisk(), ServerOptions(keys=(ApiKey("owner", SECRET),))
    setting = Setting(options=options, clock=QuickClock())
    async with (
        served(target_of(chaos), store=OneOfTwo(disk), setting=setting) as one,
        served(target_of(chaos), store=OneOfTwo(disk), setting=setting) as other,
    ):
        yield one, other


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


async def until_status(server: Served, status: int, secret: str) -> None:
    while (await server.get("/v1/runs", **bearer(secret)))[0] != status:
        continue


async def test_a_key_revoked_at_one_node_is_refused_at_the_other_and_its_streams_end() -> None:
    """P11."""
    gate = Gate()
    async with ChaosServer([Say("x"), Wait(gate)]) as chaos, two_nodes(chaos) as (one, other):
        _, made = await one.post("/api/keys", {"name": "laptop"}, **OWNER)
        secret: str = made["key"]
        await until_status(other, 200, secret)
        _, started = await other.post("/v1/runs", {"input": "hi", "session_id": "s"}, **OWNER)
        url = f"{other.url}/v1/runs/{started['run_id']}/events"
        async with aiohttp.ClientSession() as session, session.get(url, headers=bearer(secret)) as stream:
            await stream.content.readline()
            gone = await one.call("DELETE", "/api/keys/laptop", headers=OWNER)
            assert gone.status == 200
            await stream.content.read()
        assert (await other.get("/v1/runs", **bearer(secret)))[0] == 401
        gate.open()


async def test_of_two_nodes_that_add_the_same_name_one_does() -> None:
    disk = MemoryDisk()
    one, other = (AddedKeys(SharedNotes(OneOfTwo(disk), "access"), SystemClock()) for _ in range(2))
    await one.add("laptop")
    with pytest.raises(KeyExists):
        await other.add("laptop")
    assert other.list() == []
    await other.load()
    assert [key.name for key in other.list()] == ["laptop"]
    assert await other.revoke("laptop")
    await one.load()
    assert one.list() == []
    assert await one.add("laptop")


async def test_a_revocation_that_others_cannot_be_told_of_is_not_called_done() -> None:
    """P11: the answer says that it worked only once the other nodes will hear of it."""
    store = OneOfTwo(MemoryDisk())
    keys = AddedKeys(SharedNotes(store, "access"), SystemClock())
    store.refuses_marks = True
    await keys.add("laptop")
    with pytest.raises(StoreFull):
        await keys.revoke("laptop")
    store.refuses_marks = False
    assert await keys.revoke("laptop")


async def test_a_grant_removed_at_one_node_is_gone_at_the_other_also_if_nobody_said_so() -> None:
    """P8: a node that dies before it tells of a change leaves no old copy for good."""
    disk = MemoryDisk()
    store = OneOfTwo(disk)
    notes = SharedNotes(store, "grants")
    grants = AlwaysGrants(notes)
    await AlwaysGrants(SharedNotes(OneOfTwo(disk), "grants")).add("g1", GrantRule(tool="shell"))
    changed = asyncio.Event()

    async def reread() -> None:
        await grants.load()
        changed.set()

    watching = asyncio.create_task(notes.watch(QuickClock(), reread))
    await changed.wait()
    assert list(grants.rules) == ["g1"]
    await OneOfTwo(disk).drop_note("grant:g1")
    while grants.rules:
        changed.clear()
        await changed.wait()
    assert store.looks <= 2 * LOOKS_MAX + 2
    watching.cancel()
    await asyncio.wait([watching])


async def test_a_store_of_one_process_is_never_asked_what_others_have_changed() -> None:
    disk = MemoryDisk()
    notes = SharedNotes(MemoryStore(disk), "access")
    await notes.put_note("api_key:x", b"1")
    await notes.drop_note("api_key:x")
    assert disk.notes == {}
    await notes.watch(SystemClock(), AlwaysGrants(notes).load)


async def test_links_tickets_and_new_sign_ins_work_at_every_server_and_a_link_only_once() -> None:
    """P7: a browser may reach another server with each request."""
    async with ChaosServer() as chaos, two_nodes(chaos) as (one, other):
        _, link = await one.post("/api/sign-in-links", **OWNER)
        page = await other.signed_in(token=link["token"])
        for server in (one, other):
            answer = await server.call("POST", "/api/sign-in", body={"token": link["token"]})
            assert answer.status == 401
        answer = await one.call("POST", "/api/sign-in", body={"token": link["token"][:-1] + "0"})
        assert answer.status == 401
        cookie = page["Cookie"].partition("=")[2]
        # The cookie's name says which port it is for; behind one address there is one port.
        at_one = {**page, "Cookie": f"holdfast_sign_in_{one.url.rpartition(':')[2]}={cookie}"}
        assert (await one.get("/api/sessions", **at_one))[0] == 200
        status, issued = await one.post("/api/tickets", {"path": "/v1/blobs/none"}, **at_one)
        assert status == 201
        path = f"/v1/blobs/none?ticket={issued['ticket']}"
        assert (await other.get(path, Cookie=page["Cookie"]))[
            0
        ] == 404  # it came in, and there is no such blob
        assert (await other.get(path.replace("none", "some"), Cookie=page["Cookie"]))[0] == 401
