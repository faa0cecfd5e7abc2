"""Named keys: added and revoked while the server runs, and obeyed at once."""

import asyncio
from contextlib import AsyncExitStack
from urllib.parse import quote

import aiohttp

from holdfast.chaos import ChaosServer
from holdfast.interfaces.journal import StoreFull
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.server.access.keys import AddedKeys
from holdfast.server.options import ApiKey, ServerOptions
from serving import Served, Setting, served, target_of
from stores import MemoryStore
from tables import for_each_row

SECRET = "sk-secret-of-the-owner"  # noqa: S105  # the key of a server that lives for a test
OWNER = {"Authorization": f"Bearer {SECRET}"}
LOCKED = Setting(options=ServerOptions(keys=(ApiKey("owner", SECRET),)))


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


async def opens(server: Served, secret: str) -> bool:
    return (await server.get("/v1/runs", **bearer(secret)))[0] == 200


async def test_an_added_key_opens_until_it_is_revoked_also_after_a_restart() -> None:
    """P11: the secret is shown once, its hash is kept, and a revoked one opens nothing."""
    disk = MemoryDisk()
    async with ChaosServer() as chaos:
        async with served(target_of(chaos), store=MemoryStore(disk), setting=LOCKED) as server:
            status, made = await server.post("/api/keys", {"name": " my laptop "}, **OWNER)
            assert (status, made["name"], made["source"]) == (201, "my laptop", "added")
            secret = made["key"]
            assert len(secret) > 40
            assert await opens(server, secret)
            _, listed = await server.get("/api/keys", **bearer(secret))
            assert [(one["name"], one["source"]) for one in listed["data"]] == [
                ("owner", "configured"),
                ("my laptop", "added"),
            ]
            assert secret not in str(listed)
        assert secret not in str(disk.notes)
        async with served(target_of(chaos), store=MemoryStore(disk), setting=LOCKED) as server:
            assert await opens(server, secret)
            gone = await server.call("DELETE", f"/api/keys/{quote('my laptop')}", headers=OWNER)
            assert (gone.status, gone.json) == (200, {"name": "my laptop", "deleted": True})
            assert not await opens(server, secret)
        async with served(target_of(chaos), store=MemoryStore(disk), setting=LOCKED) as server:
            assert not await opens(server, secret)
            assert await opens(server, SECRET)


async def test_who_signed_in_with_a_revoked_key_is_out_also_when_the_name_comes_back() -> None:
    """P11: a cookie belongs to a secret, not to a name."""
    disk = MemoryDisk()
    async with ChaosServer() as chaos:
        async with served(target_of(chaos), store=MemoryStore(disk), setting=LOCKED) as server:
            _, made = await server.post("/api/keys", {"name": "phone"}, **OWNER)
            cookie = await server.signed_in(key=made["key"])
            assert (await server.call("GET", "/v1/runs", headers=cookie)).status == 200
            await server.call("DELETE", "/api/keys/phone", headers=OWNER)
            assert (await server.call("GET", "/v1/runs", headers=cookie)).status == 401
            assert (await server.post("/api/keys", {"name": "phone"}, **OWNER))[0] == 201
            assert (await server.call("GET", "/v1/runs", headers=cookie)).status == 401
            owners = await server.signed_in(key=SECRET)
        other = Setting(options=ServerOptions(keys=(ApiKey("owner", "another-secret-of-the-owner"),)))
        async with served(target_of(chaos), store=MemoryStore(disk), setting=other) as server:
            assert (await server.call("GET", "/v1/runs", headers=owners)).status == 401


async def test_what_cannot_be_added_or_revoked_says_why() -> None:
    """P12: names that are taken or no names, keys of the configuration, a server without locks."""
    async with ChaosServer() as chaos:
        async with served(target_of(chaos), setting=LOCKED) as server:
            for name in ("", " ", "a/b", "a\\b", "..", "x" * 65, "a\nb"):
                answer = await server.call("POST", "/api/keys", body={"name": name}, headers=OWNER)
                assert (answer.status, answer.json["error"]["param"]) == (400, "name"), name
            assert (await server.post("/api/keys", {"name": "a"}, **OWNER))[0] == 201
            for name in ("a", "owner"):
                answer = await server.call("POST", "/api/keys", body={"name": name}, headers=OWNER)
                assert (answer.status, answer.code) == (409, "key_exists")
            answer = await server.call("DELETE", "/api/keys/owner", headers=OWNER)
            assert (answer.status, answer.code) == (409, "key_configured")
            answer = await server.call("DELETE", "/api/keys/nobody", headers=OWNER)
            assert (answer.status, answer.code) == (404, "key_not_found")
            assert (await server.call("GET", "/api/keys")).code == "invalid_api_key"
        async with served(target_of(chaos)) as server:
            answer = await server.call("POST", "/api/keys", body={"name": "a"})
            assert (answer.status, answer.code) == (409, "no_keys_needed")


async def test_a_key_added_while_no_server_runs_opens_the_next_one() -> None:
    disk = MemoryDisk()
    added = AddedKeys(MemoryStore(disk), SystemClock())
    await added.load()
    secret = await added.add("batch")
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos), store=MemoryStore(disk), setting=LOCKED) as server,
    ):
        assert await opens(server, secret)


class FullDisk(MemoryStore):
    """A store that takes nothing while it is full."""

    is_full = False

    async def drop_note(self, key: str) -> None:
        if self.is_full:
            raise StoreFull("the disk is full")
        await super().drop_note(key)


async def test_a_revocation_that_was_not_saved_is_said_to_have_failed_until_it_is() -> None:
    """P11: the key opens nothing at once, and whoever tries again does not leave it for the next start."""
    disk = MemoryDisk()
    store = FullDisk(disk)
    async with ChaosServer() as chaos:
        async with served(target_of(chaos), store=store, setting=LOCKED) as server:
            _, made = await server.post("/api/keys", {"name": "a"}, **OWNER)
            store.is_full = True
            for _ in range(2):
                answer = await server.call("DELETE", "/api/keys/a", headers=OWNER)
                assert (answer.status, answer.code) == (503, "store_unavailable")
                assert not await opens(server, made["key"])
            store.is_full = False
            assert (await server.call("DELETE", "/api/keys/a", headers=OWNER)).status == 200
            assert (await server.call("DELETE", "/api/keys/a", headers=OWNER)).status == 404
        async with served(target_of(chaos), store=MemoryStore(disk), setting=LOCKED) as server:
            assert not await opens(server, made["key"])


class SlowDisk(MemoryStore):
    """A store that keeps a note waiting until it is told what becomes of it."""

    def __init__(self, disk: MemoryDisk) -> None:
        super().__init__(disk)
        self.is_waiting: asyncio.Event = asyncio.Event()
        self.outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def swap_note(self, key: str, value: bytes, *, expected: bytes | None) -> bool:
        if key.startswith("api_key:"):
            self.is_waiting.set()
            await self.outcome
        return await super().swap_note(key, value, expected=expected)


@for_each_row("is_saved", [True, False])
async def test_a_key_that_is_revoked_before_it_is_saved_opens_nothing_also_after_a_restart(
    is_saved: bool,  # noqa: FBT001
) -> None:
    """P11, P12: both who ask are answered, whichever of them the disk serves first."""
    disk = MemoryDisk()
    store = SlowDisk(disk)
    async with ChaosServer() as chaos, served(target_of(chaos), store=store, setting=LOCKED) as server:
        adding = asyncio.create_task(server.post("/api/keys", {"name": "a"}, **OWNER))
        await store.is_waiting.wait()
        assert (await server.call("DELETE", "/api/keys/a", headers=OWNER)).status == 200
        if is_saved:
            store.outcome.set_result(None)
        else:
            store.outcome.set_exception(StoreFull("the disk is full"))
        status, answer = await adding
        assert status == (201 if is_saved else 503)
        assert not await opens(server, answer.get("key", "none"))
    assert not [key for key in disk.notes if key.startswith("api_key:")]


async def test_a_sign_out_that_was_not_saved_is_said_to_have_failed_and_can_be_tried_again() -> None:
    """P11: a browser that was told it is signed out is, after a restart, too."""
    disk = MemoryDisk()
    store = FullDisk(disk)
    async with ChaosServer() as chaos:
        async with served(target_of(chaos), store=store, setting=LOCKED) as server:
            cookie = await server.signed_in(key=SECRET)
            store.is_full = True
            assert (await server.call("POST", "/api/sign-out", headers=cookie)).status == 503
            store.is_full = False
            assert (await server.call("POST", "/api/sign-out", headers=cookie)).status == 200
        async with served(target_of(chaos), store=MemoryStore(disk), setting=LOCKED) as server:
            assert (await server.call("GET", "/v1/runs", headers=cookie)).status == 401


async def test_who_reads_a_stream_hears_nothing_more_once_the_key_is_revoked_or_the_browser_signed_out() -> (
    None
):
    """P11: a stream lasts for days, so that a key taken back must end it; nobody else's ends."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=LOCKED) as server:
        await server.post("/api/sessions", {"id": "s"}, **OWNER)
        secrets = [(await server.post("/api/keys", {"name": name}, **OWNER))[1]["key"] for name in "ab"]
        cookies = [await server.signed_in(key=secret) for secret in secrets]
        async with AsyncExitStack() as stack:

            async def reading(path: str, headers: dict[str, str]) -> aiohttp.StreamReader:
                answer = await stack.enter_async_context(server.http.get(server.url + path, headers=headers))
                await answer.content.readline()
                return answer.content

            by_key = await reading("/api/sessions/s/events", bearer(secrets[0]))
            by_cookie = await reading("/api/events", cookies[0])
            others = await reading("/api/sessions/s/events", bearer(secrets[1]))
            signing_out = await reading("/api/events", cookies[1])
            assert (await server.call("DELETE", "/api/keys/a", headers=OWNER)).status == 200
            await server.until_streams(2)
            rename = await server.call("PATCH", "/api/sessions/s", body={"title": "for few"}, headers=OWNER)
            assert rename.status == 200
            assert b"for few" not in await by_key.read()
            assert b"for few" not in await by_cookie.read()
            assert (await server.post("/api/sign-out", **cookies[1]))[0] == 200
            await server.until_streams(1)
            rename = await server.call("PATCH", "/api/sessions/s", body={"title": "fewer"}, headers=OWNER)
            assert rename.status == 200
            assert b"fewer" not in await signing_out.read()
            while b"for few" not in await others.readline():
                pass


async def test_two_keys_share_no_idempotency_key_whatever_they_are_called() -> None:
    """P2, P11: a name may hold what stands between it and the key that its owner sends."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=LOCKED) as server:
        made: list[str] = []
        for name, given in (("a", "b:c"), ("a:b", "c")):
            _, key = await server.post("/api/keys", {"name": name}, **OWNER)
            headers = bearer(key["key"]) | {"Idempotency-Key": given}
            first = await server.call("POST", "/api/sessions", body={}, headers=headers)
            again = await server.call("POST", "/api/sessions", body={}, headers=headers)
            assert first.json == again.json
            made.append(first.json["id"])
        assert made[0] != made[1]


async def test_on_an_open_server_a_key_is_removed_and_a_word_in_its_place_is_not() -> None:
    """P11: clients that must have a key send any word, which then occurs in ordinary texts."""
    key = "sk-proj-a1B2c3D4e5F6g7H8i9"
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        for sent, kept in ((key, "about [redacted]"), ("unneeded", "about unneeded")):
            _, made = await server.post("/api/sessions", {"title": f"about {sent}"}, **bearer(sent))
            assert made["title"] == kept


async def test_an_error_holds_neither_the_callers_key_nor_one_that_only_looks_like_one() -> None:
    """P11, P12: a key in a path, a query or a body isn't echoed."""
    foreign = "sk-proj-a1B2c3D4e5F6g7H8i9"
    async with ChaosServer() as chaos, served(target_of(chaos), setting=LOCKED) as server:
        for secret in (SECRET, foreign):
            for path in (f"/v1/runs/{secret}", f"/api/sessions/{secret}", f"/v1/runs?status={secret}"):
                status, said = await server.get(path, **OWNER)
                assert status in {400, 404}
                assert secret not in str(said)
                assert "[redacted]" in said["error"]["message"]
            status, said = await server.post("/api/keys", {"name": f"for {secret}"}, **OWNER)
            assert (status, said["error"]["code"]) == (400, "secret_in_name")
