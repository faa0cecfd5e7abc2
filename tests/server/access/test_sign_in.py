"""Browsers that sign in: a cookie and a secret of the page, links, and tickets for what sends no headers."""

import pytest

from holdfast.chaos import ChaosServer, Say
from holdfast.interfaces.journal import StoreFull
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.server.access.auth import (
    LINK_MS,
    LINKS_MAX,
    KeyRing,
    SignIns,
    cookie_in,
    cookie_name,
)
from holdfast.server.access.keys import AddedKeys
from holdfast.server.access.tickets import TICKET_MS, Tickets, without_ticket
from holdfast.server.options import ApiKey, ServerOptions
from serving import Served, Setting, served, target_of
from stores import MemoryStore
from tables import for_each_row

SECRET = "sk-secret-of-the-owner"  # noqa: S105  # the key of a server that lives for a test
OWNER = {"Authorization": f"Bearer {SECRET}"}
LOCKED = Setting(options=ServerOptions(keys=(ApiKey("owner", SECRET),)))


class Hours:
    """A clock that tests set."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def now_ms(self) -> int:
        return self.ms

    def monotonic_s(self) -> float:
        return self.ms / 1000

    def steady_s(self) -> float:
        return self.ms / 1000

    async def sleep_s(self, seconds: float) -> None:
        self.ms += int(1000 * seconds)


def only_cookie(page: dict[str, str]) -> dict[str, str]:
    """What a program on another port of the same host is sent."""
    return {"Cookie": page["Cookie"]}


async def ticket(server: Served, page: dict[str, str], path: str) -> str:
    status, answer = await server.post("/api/tickets", {"path": path}, **page)
    assert (status, answer["expires_in_s"]) == (201, 60)
    return answer["ticket"]


async def test_a_browser_signs_in_with_the_key_and_out_again_also_after_a_restart() -> None:
    """P11: the cookie is out of reach of scripts and other sites, and foreign pages cannot use it."""
    disk = MemoryDisk()
    async with ChaosServer() as chaos:
        async with served(target_of(chaos), store=MemoryStore(disk), setting=LOCKED) as server:
            for body, status in (({"key": "wrong"}, 401), ({}, 400), ({"token": "wrong"}, 401)):
                assert (await server.post("/api/sign-in", body))[0] == status
            answer = await server.call("POST", "/api/sign-in", body={"key": SECRET})
            kept = answer.headers["Set-Cookie"].lower().split("; ")
            assert {"httponly", "samesite=strict", "path=/"} <= set(kept)
            assert answer.headers["Cache-Control"] == "no-store"
            page = await server.signed_in(key=SECRET)
            assert (await server.call("GET", "/v1/runs", headers=page)).status == 200
            foreign = page | {"Origin": "https://evil.example"}
            refused = await server.call("GET", "/v1/runs", headers=foreign)
            assert (refused.status, refused.code) == (403, "foreign_origin")
            host = server.url.removeprefix("http://")
        async with served(target_of(chaos), store=MemoryStore(disk), setting=LOCKED) as server:
            page |= {"Host": host}
            assert (await server.call("GET", "/v1/runs", headers=page)).status == 200
            assert (await server.call("POST", "/api/sign-out", headers=page)).status == 200
            assert (await server.call("GET", "/v1/runs", headers=page)).status == 401
    for secret in (SECRET, page["X-Holdfast-Page"], page["Cookie"].partition("=")[2]):
        assert secret not in str(disk.notes)


async def test_the_cookie_alone_opens_no_route() -> None:
    """P11: browsers send it to every port of the host, so that any program there can send it, too."""
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos), setting=LOCKED) as server:
        page, other = await server.signed_in(key=SECRET), await server.signed_in(key=SECRET)
        _, document = await server.get("/openapi.json", **OWNER)
        asked = 0
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if operation.get("security") == [] or path in {"/docs", "/openapi.json"}:
                    continue  # it needs no key, or holds nothing of anyone
                for wrong in ("", "x", "é", other["X-Holdfast-Page"]):
                    headers = only_cookie(page) | {"X-Holdfast-Page": wrong}
                    answer = await server.call(
                        method.upper(), path.replace("{", "").replace("}", ""), headers=headers
                    )
                    assert (answer.status, answer.code) == (401, "invalid_api_key"), (method, path)
                    assert path == "/mcp" or "Sign in again" in answer.json["error"]["message"]
                asked += 1
        assert asked > 50
        assert (await server.call("GET", "/docs", headers=only_cookie(page))).status == 200
        assert (await server.call("GET", "/v1/runs", headers=page)).status == 200


async def test_a_sign_in_from_before_there_were_page_secrets_opens_nothing() -> None:
    """P11: its page is asked to sign in, once."""
    disk = MemoryDisk()
    async with ChaosServer() as chaos:
        async with served(target_of(chaos), store=MemoryStore(disk), setting=LOCKED) as server:
            page = await server.signed_in(key=SECRET, host="localhost:1")
        (name,) = (key for key in disk.notes if key.startswith("sign_in:"))
        whole, _, _ = disk.notes[name].partition(b',"page"')
        disk.notes[name] = whole + b"}"
        async with served(target_of(chaos), store=MemoryStore(disk), setting=LOCKED) as server:
            for headers in (page, only_cookie(page) | {"Host": "localhost:1"}):
                answer = await server.call("GET", "/v1/runs", headers=headers)
                assert (answer.status, answer.code) == (401, "invalid_api_key")
            assert (await server.call("GET", "/docs", headers=page)).status == 401
            assert await server.signed_in(key=SECRET)


async def test_a_page_from_before_an_upgrade_is_told_to_reload() -> None:
    """P9: it would take the cookie, lose the secret, and ask for the key for ever."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=LOCKED) as server:
        old = {"Origin": server.url}
        answer = await server.call("POST", "/api/sign-in", body={"key": SECRET}, headers=old)
        assert (answer.status, answer.code) == (409, "page_outdated")
        assert "Reload" in answer.json["error"]["message"]
        assert "Set-Cookie" not in answer.headers
        current = old | {"X-Holdfast-Page": ""}
        assert (
            await server.call("POST", "/api/sign-in", body={"key": SECRET}, headers=current)
        ).status == 200
        foreign = current | {"Origin": "http://127.0.0.1:1"}
        answer = await server.call("POST", "/api/sign-in", body={"key": SECRET}, headers=foreign)
        assert (answer.status, answer.code) == (403, "foreign_origin")


async def test_two_servers_on_one_host_do_not_sign_each_other_out() -> None:
    """P7: a browser keeps one jar for all ports."""
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos), setting=LOCKED) as first,
        served(target_of(chaos), setting=LOCKED) as second,
    ):
        one, two = await first.signed_in(key=SECRET), await second.signed_in(key=SECRET)
        assert one["Cookie"].partition("=")[0] != two["Cookie"].partition("=")[0]
        both = {"Cookie": f"{one['Cookie']}; {two['Cookie']}"}
        assert (await first.call("GET", "/v1/runs", headers=one | both)).status == 200
        assert (await second.call("POST", "/api/sign-out", headers=two | both)).status == 200
        assert (await first.call("GET", "/v1/runs", headers=one | both)).status == 200


def test_the_cookie_is_found_among_others_by_the_name_of_its_port() -> None:
    assert cookie_name("localhost:8642") == "holdfast_sign_in_8642"
    assert cookie_name("[::1]:99") == "holdfast_sign_in_99"
    assert cookie_name("box.example") == cookie_name("[::1]") == "holdfast_sign_in"
    assert cookie_in("a=b; holdfast_sign_in_1=x=y; c=d", "holdfast_sign_in_1") == "x=y"
    assert cookie_in("xholdfast_sign_in=1; holdfast_sign_in_2=3", "holdfast_sign_in") == ""


async def test_a_ticket_opens_one_download_for_the_browser_that_asked_for_it() -> None:
    """P11: not another path or query, not another browser, not another method, and no stream or list."""
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos), setting=LOCKED) as server:
        _, started = await server.post("/v1/runs", {"input": "x", "session_id": "a b"}, **OWNER)
        await server.call("GET", f"/v1/runs/{started['run_id']}/events", headers=OWNER)
        blob, another = [
            (await server.call("POST", "/api/blobs", body=data, headers=OWNER)).json["blob"]
            for data in (b"1", b"2")
        ]
        page, other = await server.signed_in(key=SECRET), await server.signed_in(key=SECRET)
        cookie = only_cookie(page)

        async def status(path: str, headers: dict[str, str] = cookie, method: str = "GET") -> int:
            return (await server.call(method, path, headers=headers)).status

        image = f"/api/blobs/{blob}?media_type=image/png"
        good = await ticket(server, page, image)
        assert await status(f"{image}&ticket={good}") == 200
        assert await status(f"{image}&ticket={good}", method="HEAD") == 200
        assert await status(f"/api/blobs/{blob}?ticket={good}&media_type=image/png") == 200
        export = "/api/sessions/a%20b/export?format=md"
        assert await status(f"{export}&ticket={await ticket(server, page, export)}") == 200
        for path, headers in (
            (image, cookie),
            (f"{image}&ticket=", cookie),
            (f"{image}&ticket=x.y", cookie),
            (f"{image}&ticket={good}0", cookie),
            (f"{image}&ticket={good}&ticket={good}", cookie),
            (f"{image}&ticket={good}", {}),
            (f"{image}&ticket={good}", only_cookie(other)),
            (f"{image}&ticket={good}", cookie | {"X-Holdfast-Page": "wrong"}),
            (f"/api/blobs/{blob}?ticket={good}", cookie),
            (f"/api/blobs/{another}?media_type=image/png&ticket={good}", cookie),
            (f"/v1/runs?ticket={good}", cookie),
        ):
            assert await status(path, headers) == 401, path
        late = await server.call("GET", f"{image}&ticket={good}0", headers=cookie)
        assert "Open it again from the page" in late.json["error"]["message"]
        for path in ("/v1/runs", "/api/events", "/api/sessions/a%20b/export/../messages", "/api/keys"):
            given = await ticket(server, page, path)
            assert await status(f"{path}?ticket={given}") in {401, 403, 404}, path
        stop = f"/v1/runs/{started['run_id']}/stop"
        assert await status(f"{stop}?ticket={await ticket(server, page, stop)}", method="POST") == 401
        assert (await server.post("/api/tickets", {"path": image}, **cookie))[0] == 401
        assert (await server.post("/api/tickets", {"path": "//evil.example"}, **page))[0] == 201
        assert (await server.post("/api/tickets", {"path": "evil"}, **page))[0] == 400
        answer = await server.call("POST", "/api/tickets", body={"path": image}, headers=OWNER)
        assert (answer.status, answer.code) == (409, "no_ticket_needed")


@for_each_row("ending", ["sign-out", "revocation"])
async def test_what_was_signed_in_ends_with_its_tickets(ending: str) -> None:
    """P11: by signing out, and by revoking the key."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=LOCKED) as server:
        _, made = await server.post("/api/keys", {"name": "phone"}, **OWNER)
        blob = (await server.call("POST", "/api/blobs", body=b"1", headers=OWNER)).json["blob"]
        page = await server.signed_in(key=made["key"])
        path = f"/api/blobs/{blob}"
        path += f"?ticket={await ticket(server, page, path)}"
        assert (await server.call("GET", path, headers=only_cookie(page))).status == 200
        if ending == "sign-out":
            await server.call("POST", "/api/sign-out", headers=page)
        else:
            await server.call("DELETE", "/api/keys/phone", headers=OWNER)
        assert (await server.call("GET", path, headers=only_cookie(page))).status == 401
        assert (await server.call("GET", "/v1/runs", headers=page)).status == 401


def test_a_ticket_is_good_for_a_minute_and_for_the_process_that_made_it() -> None:
    clock = Hours()
    tickets = Tickets(clock)
    made = tickets.issue("cookie", "/a?")
    assert tickets.opens("cookie", made, target="/a?")
    assert not Tickets(clock).opens("cookie", made, target="/a?")
    clock.ms += TICKET_MS - 1
    assert tickets.opens("cookie", made, target="/a?")
    clock.ms += 1
    assert not tickets.opens("cookie", made, target="/a?")
    clock.ms -= 2 * TICKET_MS
    assert not tickets.opens("cookie", made, target="/a?")
    for wrong in ("", ".", "zz.zz", "-1.x", made.partition(".")[0] + ".é"):
        assert not tickets.opens("cookie", wrong, target="/a?")
    assert without_ticket("a=1&ticket=x&b=2") == ("x", "a=1&b=2")
    assert without_ticket("ticket=x&ticket=y") == ("", "")
    assert without_ticket("a=ticket=x") == ("", "a=ticket=x")


def ring(store: MemoryStore, clock: Hours) -> tuple[KeyRing, SignIns]:
    keys = KeyRing([ApiKey("me", SECRET)], AddedKeys(store, clock))
    return keys, SignIns(store, clock, keys)


async def test_a_link_signs_in_once_and_a_revoked_key_signs_everyone_out() -> None:
    clock, store = Hours(), MemoryStore()
    keys, sign_ins = ring(store, clock)
    token = sign_ins.new_link("me")
    signed_in = await sign_ins.sign_in_by_link(token)
    assert signed_in is not None
    assert SECRET not in repr(signed_in)
    assert signed_in.cookie not in repr(signed_in)
    assert await sign_ins.sign_in_by_link(token) is None
    assert sign_ins.name_of(signed_in.cookie, signed_in.page) == "me"
    clock.ms += 31 * 86_400_000
    assert sign_ins.name_of(signed_in.cookie, signed_in.page) is None
    fresh = await sign_ins.sign_in("me")
    unused = sign_ins.new_link("me")
    keys.replace([ApiKey("you", "other")])
    assert sign_ins.name_of(fresh.cookie, fresh.page) is None
    assert await sign_ins.sign_in_by_link(unused) is None
    assert keys.name_of(SECRET) is None
    assert keys.name_of("other") == "you"


async def test_a_link_is_good_for_ten_minutes_and_there_are_never_many() -> None:
    """P11: what stands in a terminal's history opens nothing."""
    clock, store = Hours(), MemoryStore()
    _, sign_ins = ring(store, clock)
    late, in_time = sign_ins.new_link("me"), sign_ins.new_link("me")
    clock.ms += LINK_MS - 1
    assert await sign_ins.sign_in_by_link(in_time) is not None
    clock.ms += 1
    assert await sign_ins.sign_in_by_link(late) is None
    links = [sign_ins.new_link("me") for _ in range(LINKS_MAX + 1)]
    assert await sign_ins.sign_in_by_link(links[0]) is None
    assert await sign_ins.sign_in_by_link(links[1]) is not None


async def test_a_link_is_good_again_where_the_sign_in_could_not_be_saved() -> None:
    """P2: nobody got in by it."""

    class FullDisk(MemoryStore):
        is_full = True

        async def put_note(self, key: str, value: bytes) -> None:
            if self.is_full:
                raise StoreFull("the disk is full")
            await super().put_note(key, value)

    clock, store = Hours(), FullDisk()
    _, sign_ins = ring(store, clock)
    token = sign_ins.new_link("me")
    with pytest.raises(StoreFull):
        await sign_ins.sign_in_by_link(token)
    store.is_full = False
    signed_in = await sign_ins.sign_in_by_link(token)
    assert signed_in is not None
    assert sign_ins.name_of(signed_in.cookie, signed_in.page) == "me"
    assert await sign_ins.sign_in_by_link(token) is None


async def test_whoever_has_a_key_gets_a_link_for_that_key_and_no_other() -> None:
    """P11: a key that may only chat makes a browser that may only chat."""
    async with ChaosServer() as chaos:
        async with served(target_of(chaos), setting=LOCKED) as server:
            _, made = await server.post("/api/keys", {"name": "phone", "scopes": ["chat"]}, **OWNER)
            bearer = {"Authorization": f"Bearer {made['key']}"}
            status, link = await server.post("/api/sign-in-links", **bearer)
            assert (status, link["expires_in_s"]) == (201, 600)
            page = await server.signed_in(token=link["token"])
            assert (await server.call("GET", "/v1/runs", headers=page)).status == 200
            answer = await server.call("GET", "/api/keys", headers=page)
            assert (answer.status, answer.code) == (403, "missing_scope")
            assert (await server.post("/api/sign-in", {"token": link["token"]}))[0] == 401
        async with served(target_of(chaos)) as server:
            answer = await server.call("POST", "/api/sign-in-links")
            assert (answer.status, answer.code) == (409, "no_keys_needed")
            assert (await server.post("/api/sign-in", {"key": "any"}))[1]["page"] == ""
