"""Who comes in: keys, cookies, hosts and origins; and what every answer carries."""

import asyncio

from msgspec.structs import replace

from holdfast.chaos import ChaosServer, Say
from holdfast.server.options import ApiKey, ServerOptions
from serving import Setting, served, target_of
from tables import for_each_row

SECRET = "sk-secret"  # noqa: S105  # the key of a server that lives for a test
KEY = {"Authorization": f"Bearer {SECRET}"}
LOCKED = Setting(options=ServerOptions(keys=(ApiKey("me", SECRET), ApiKey("you", "another-key-of-length"))))
ORIGIN = "https://app.example"


async def test_without_the_key_nothing_is_answered_or_looked_up() -> None:
    """S004-6, S004-11, S004-16, S004-19, P11: 401 on every route, also for what does not exist."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=LOCKED) as server:
        for method, path, body in (
            ("POST", "/v1/runs", {"input": "hi"}),
            ("POST", "/v1/runs", b"not even JSON"),
            ("GET", "/v1/runs/run_unknown", None),
            ("GET", "/v1/runs/run_unknown/events", None),
            ("POST", "/v1/runs/run_unknown/stop", None),
            ("GET", "/v1/nowhere", None),
            ("GET", "/api/sessions", None),
            ("GET", "/health/detailed", None),
        ):
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": SECRET}):
                answer = await server.call(method, path, body=body, headers=headers)
                assert (answer.status, answer.code) == (401, "invalid_api_key"), path
                assert SECRET not in answer.body.decode()


async def test_with_the_key_or_without_a_lock_runs_start() -> None:
    """S004-7: a short key on loopback opens; so does a server with auth switched off."""
    async with ChaosServer([Say("x")], after_last="repeat") as chaos:
        async with served(target_of(chaos), setting=LOCKED) as server:
            assert (await server.post("/v1/runs", {"input": "hi"}, **KEY))[0] == 202
            assert (
                await server.post("/v1/runs", {"input": "hi"}, Authorization="bearer another-key-of-length")
            )[0] == 202
        async with served(target_of(chaos)) as server:
            assert (await server.post("/v1/runs", {"input": "hi"}))[0] == 202


async def test_health_needs_no_key_and_minds_no_origin() -> None:
    async with ChaosServer() as chaos, served(target_of(chaos), setting=LOCKED) as server:
        for path in ("/health", "/v1/health", "/health/ready"):
            status, health = await server.get(path, Origin="https://evil.example", Host="evil.example")
            assert (status, health["status"]) == (200, "ok")
            assert health["version"]


@for_each_row("host", ["evil.example", "evil.example:8642", "127.0.0.1.evil.example", ""])
async def test_a_host_that_is_not_ours_is_refused(host: str) -> None:
    """P11: a page whose name was made to point here gets nothing."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        answer = await server.call("POST", "/v1/runs", body={"input": "x"}, headers={"Host": host})
        assert (answer.status, answer.code) == (421, "unknown_host")


async def test_loopback_names_and_configured_hosts_are_ours() -> None:
    setting = Setting(options=ServerOptions(hosts=("box.example",)))
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        for host in (
            "localhost",
            "localhost:1",
            "127.0.0.1:99",
            "[::1]:8642",
            "box.example:80",
            "BOX.example",
        ):
            assert (await server.get("/v1/runs", Host=host))[0] == 200, host


async def test_who_listens_on_every_address_is_known_by_each_but_by_no_further_name() -> None:
    """P11: a page whose name was made to point here sends that name, never an address."""
    setting = Setting(options=ServerOptions(hosts=("0.0.0.0",)))  # noqa: S104
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        for host in ("192.168.1.7:8642", "10.0.0.1", "[fd00::7]:8642"):
            assert (await server.get("/v1/runs", Host=host))[0] == 200, host
        assert (await server.get("/v1/runs", Host="box.example"))[0] == 421
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        assert (await server.get("/v1/runs", Host="192.168.1.7"))[0] == 421


async def test_an_empty_key_opens_nothing_even_if_it_is_kept_as_one() -> None:
    """P11: as a key file is that was cut short."""
    setting = Setting(options=ServerOptions(keys=(ApiKey("me", ""),)))
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        for words in ("Bearer", "Bearer ", "Bearer x"):
            answer = await server.call("GET", "/v1/runs", headers={"Authorization": words})
            assert (answer.status, answer.code) == (401, "invalid_api_key")


async def test_a_foreign_page_cannot_use_an_open_server() -> None:
    """P11: a browser sends such a request without asking, so its origin decides."""
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos)) as server:
        answer = await server.call("POST", "/v1/runs", body={"input": "x"}, headers={"Origin": ORIGIN})
        assert (answer.status, answer.code) == (403, "foreign_origin")
        own = {"Origin": server.url}
        assert (await server.call("POST", "/v1/runs", body={"input": "x"}, headers=own)).status == 202


SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


async def test_every_answer_carries_the_security_headers() -> None:
    """P11: the page, errors, streams, downloads, what has not changed, and what is no HTTP."""
    options = replace(LOCKED.options, page={"index.html": b"<p>", "assets/a.js": b"1"})
    async with (
        ChaosServer([Say("x")]) as chaos,
        served(target_of(chaos), setting=Setting(options=options)) as server,
    ):
        _, started = await server.post("/v1/runs", {"input": "x", "session_id": "s"}, **KEY)
        await server.call("GET", f"/v1/runs/{started['run_id']}/events", headers=KEY)
        blob = (await server.call("POST", "/api/blobs", body=b"bytes", headers=KEY)).json["blob"]
        unchanged = {"If-None-Match": "*"}
        for status, method, path, headers in (
            (200, "GET", "/health", {}),
            (200, "GET", "/", {}),
            (304, "GET", "/", unchanged),
            (200, "GET", "/assets/a.js", {}),
            (405, "POST", "/", {}),
            (401, "GET", "/v1/runs", {}),
            (404, "GET", "/v1/nowhere", KEY),
            (405, "PUT", "/v1/runs", KEY),
            (421, "GET", "/", {"Host": "evil.example"}),
            (200, "GET", f"/v1/runs/{started['run_id']}/events", KEY),
            (200, "GET", "/api/sessions/s/export", KEY),
            (200, "GET", f"/api/blobs/{blob}", KEY),
            (304, "GET", f"/api/blobs/{blob}", KEY | unchanged),
            (200, "HEAD", f"/api/blobs/{blob}", KEY),
            (401, "OPTIONS", "/v1/runs", {}),
            (200, "GET", "/docs", KEY),
        ):
            answer = await server.call(method, path, headers=headers)
            assert answer.status == status, (method, path, answer.body)
            assert {name: answer.headers.get(name) for name in SECURITY} == SECURITY, path
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"], path
            assert "Access-Control-Allow-Origin" not in answer.headers
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
        writer.write(b"no HTTP\r\n\r\n")
        said = (await reader.read()).decode().lower()
        writer.close()
        await writer.wait_closed()
        for name, value in SECURITY.items():
            assert f"{name}: {value}".lower() in said


async def test_listed_origins_are_told_so_on_every_answer() -> None:
    """CORS on errors and streams too, with PATCH and the headers that clients send; others hear nothing."""
    setting = Setting(options=ServerOptions(keys=(ApiKey("me", SECRET),), cors_origins=(ORIGIN,)))
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos), setting=setting) as server:
        asked = {"Origin": ORIGIN, "Access-Control-Request-Method": "PATCH"}
        preflight = await server.call("OPTIONS", "/api/sessions/x", headers=asked)
        assert preflight.status == 204
        assert "PATCH" in preflight.headers["Access-Control-Allow-Methods"]
        allowed = preflight.headers["Access-Control-Allow-Headers"]
        for name in ("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", ", *"):
            assert name in allowed
        _, started = await server.post("/v1/runs", {"input": "x"}, **KEY)
        for path in ("/v1/runs", "/v1/nowhere", f"/v1/runs/{started['run_id']}/events", "/health"):
            answer = await server.call("GET", path, headers=KEY | {"Origin": ORIGIN})
            assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN, path
            assert answer.headers["Vary"] == "Origin"
            other = await server.call("GET", path, headers=KEY | {"Origin": "https://evil.example"})
            assert "Access-Control-Allow-Origin" not in other.headers
        unauthorized = await server.call("GET", "/v1/runs", headers={"Origin": ORIGIN})
        assert unauthorized.status == 401
        assert unauthorized.headers["Access-Control-Allow-Origin"] == ORIGIN


async def test_a_star_lets_every_page_read_but_lends_none_the_cookie() -> None:
    """P11: with a key of its own any origin comes in; with the cookie of a browser only our own page does."""
    setting = Setting(options=ServerOptions(keys=(ApiKey("me", SECRET),), cors_origins=("*",)))
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos), setting=setting) as server:
        foreign = {"Origin": ORIGIN}
        preflight = await server.call("OPTIONS", "/v1/runs", headers=foreign)
        assert (preflight.status, preflight.headers["Access-Control-Allow-Origin"]) == (204, ORIGIN)
        answer = await server.call("POST", "/v1/runs", body={"input": "x"}, headers=KEY | foreign)
        assert answer.status == 202
        stream = f"/v1/runs/{answer.json['run_id']}/events"
        for path in (stream, "/v1/runs/run_no/events", "/v1/runs?limit=x"):
            assert (await server.call("GET", path, headers=KEY | foreign)).headers[
                "Access-Control-Allow-Origin"
            ] == ORIGIN
        lent = await server.call("GET", "/v1/runs", headers=await server.signed_in(key=SECRET) | foreign)
        assert (lent.status, lent.code) == (403, "foreign_origin")
        assert "Access-Control-Allow-Credentials" not in lent.headers


async def test_the_hermes_session_key_is_echoed() -> None:
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        answer = await server.call("GET", "/v1/runs", headers={"X-Hermes-Session-Key": "k-1"})
        assert answer.headers["X-Hermes-Session-Key"] == "k-1"
