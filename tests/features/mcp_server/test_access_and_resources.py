"""Who gets in at /mcp, what bad messages are told, and sessions as resources."""

import asyncio
from contextlib import aclosing
from typing import Any

from features.mcp_server.rpc_client import META, NEW, OLD, RpcClient
from holdfast.chaos import ChaosServer, Hang, Say
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.server.options import ApiKey, Limits, ServerOptions
from serving import Setting, limited, served, target_of
from stores import MemoryStore
from tables import for_each_row

SECRET = "sk-secret-of-the-owner"  # noqa: S105
OWNER = {"Authorization": f"Bearer {SECRET}"}
LOCKED = Setting(options=ServerOptions(keys=(ApiKey("owner", SECRET),)))
PING: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


async def test_only_a_key_with_the_scope_gets_in_and_no_page_of_another_origin() -> None:
    """P11: no cookie either, and with a key the origin counts too."""
    async with ChaosServer() as chaos, served(target_of(chaos), setting=LOCKED) as server:
        for headers in ({}, {"Authorization": "Bearer sk-wrong"}, await server.signed_in(key=SECRET)):
            for method in ("POST", "GET", "DELETE"):
                answer = await server.call(method, "/mcp", body=PING, headers=headers)
                assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        _, made = await server.post("/api/keys", {"name": "r", "scopes": ["relay"]}, **OWNER)
        relay = {"Authorization": f"Bearer {made['key']}"}
        assert (await server.call("POST", "/mcp", body=PING, headers=relay)).code == "missing_scope"
        foreign = OWNER | {"Origin": "http://evil.example"}
        for method in ("POST", "GET"):
            assert (await server.call(method, "/mcp", body=PING, headers=foreign)).code == "foreign_origin"
        own = OWNER | {"Origin": server.url}
        assert (await server.call("POST", "/mcp", body=PING, headers=own)).json["result"] == {}
        rebound = OWNER | {"Host": "evil.example"}
        assert (await server.call("POST", "/mcp", body=PING, headers=rebound)).status == 421


BAD: list[tuple[Any, dict[str, str], int, int]] = [
    (b"{", {}, 400, -32700),
    (b"\xff", {}, 400, -32700),
    (b"", {}, 400, -32600),
    ([PING], {}, 400, -32600),
    (b"[" * 200, {}, 400, -32600),
    ({"id": 1, "method": "ping"}, {}, 400, -32600),
    (PING | {"jsonrpc": "1.0"}, {}, 400, -32600),
    (PING | {"id": None}, {}, 400, -32600),
    (PING | {"id": 1.5}, {}, 400, -32600),
    (PING | {"id": "x" * 300}, {}, 400, -32600),
    (PING | {"result": {}}, {}, 400, -32600),
    ({"jsonrpc": "2.0", "id": 1}, {}, 400, -32600),
    (PING | {"params": [1]}, {}, 400, -32600),
    (PING | {"method": "tools/none"}, {}, 200, -32601),
    (PING | {"method": "initialize"}, {}, 200, -32602),
    (PING, {"Mcp-Session-Id": "mcp.2025-11-25.e.zz"}, 404, -32600),
    (PING, {"Mcp-Protocol-Version": "1999-01-01"}, 400, -32022),
    (PING, {"Mcp-Protocol-Version": NEW}, 400, -32602),
    (PING | {"method": "tools/call", "params": {"name": "no"}}, {}, 200, -32602),
    (PING | {"method": "tools/call", "params": {"name": {}}}, {}, 200, -32602),
    (PING | {"method": "prompts/get", "params": {"name": "holdfast"}}, {}, 200, -32602),
    (PING | {"method": "prompts/get", "params": {"name": "x"}}, {}, 200, -32602),
    (PING | {"method": "tools/list", "params": {"cursor": "x"}}, {}, 200, -32602),
    (PING | {"method": "resources/list", "params": {"cursor": "x"}}, {}, 200, -32602),
    (PING | {"method": "resources/list", "params": {"cursor": 7}}, {}, 200, -32602),
    (PING | {"method": "resources/read", "params": {"uri": "file:///etc/passwd"}}, {}, 200, -32002),
    (PING | {"method": "resources/subscribe", "params": {"uri": "x"}}, {}, 200, -32602),
]


@for_each_row(("body", "headers", "status", "code"), BAD)
async def test_a_bad_message_gets_the_error_that_the_protocol_has_for_it(
    body: Any, headers: dict[str, str], status: int, code: int
) -> None:
    """P12."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        answer = await server.call("POST", "/mcp", body=body, headers=headers)
        assert (answer.status, answer.json["error"]["code"]) == (status, code), answer.body
        assert answer.json["jsonrpc"] == "2.0"
        assert answer.json["error"]["message"]
        assert (await server.get("/v1/runs"))[1]["data"] == []


async def test_a_new_client_that_contradicts_itself_is_told_so() -> None:
    """P12."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        client = RpcClient(server)
        message = client.message("tools/call", {"name": "get_run", "arguments": {"run_id": "x"}})
        for name, value in (
            ("Mcp-Method", "tools/list"),
            ("Mcp-Name", "run_agent"),
            ("Mcp-Protocol-Version", OLD),
        ):
            answer = await client.posted(message, **{name: value})
            assert (answer.status, answer.json["error"]["code"], answer.json["id"]) == (400, -32020, 1)
        encoded = await client.posted(message, **{"Mcp-Name": "=?base64?Z2V0X3J1bg==?="})
        assert encoded.status == 200
        assert (await client.posted(message, **{"Mcp-Name": "=?base64?!?="})).status == 400
        later = client.message("tools/list")
        later["params"]["_meta"][f"{META}protocolVersion"] = "2099-01-01"
        answer = await client.posted(later, **{"Mcp-Protocol-Version": "2099-01-01"})
        assert answer.json["error"]["data"] == {"supported": [NEW], "requested": "2099-01-01"}
        for gone in ("initialize", "ping", "resources/subscribe"):
            answer = await client.posted(client.message(gone))
            assert (answer.status, answer.json["error"]["code"]) == (404, -32601)
        discovered = await client.result("server/discover")
        assert (discovered["supportedVersions"], discovered["ttlMs"]) == ([NEW], 0)


async def test_other_requests_than_those_of_the_protocol_are_refused() -> None:
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos), setting=limited(body_bytes_max=2_000)) as server,
    ):
        old = await RpcClient(server, OLD).begun()
        session = {"Mcp-Session-Id": old.session}
        assert (await server.call("DELETE", "/mcp", headers=session)).status == 405
        assert (await server.call("GET", "/mcp")).status == 400
        assert (await server.call("GET", "/mcp", headers={"Mcp-Protocol-Version": NEW})).status == 405
        assert (await server.call("GET", "/mcp", headers=session | {"Accept": "text/html"})).status == 406
        assert (await server.call("POST", "/mcp", body=PING, headers={"Accept": "text/html"})).status == 406
        call = {"name": "run_agent", "arguments": {"message": "hi"}}
        message = old.message("tools/call", call)
        answer = await old.posted(message, Accept="application/json")
        assert (answer.status, (await server.get("/v1/runs"))[1]["data"]) == (200, [])
        assert answer.json["error"]["data"]["code"] == "not_acceptable"
        huge = old.message("tools/call", {"name": "run_agent", "arguments": {"message": "x" * 3_000}})
        assert (await old.posted(huge)).code == "body_too_large"
        for arguments in (
            {},
            {"message": ""},
            {"message": 7},
            {"message": "x", "workspace": "a"},
            {"run": 1},
            [1],
        ):
            bad = await old.asked("tools/call", {"name": "run_agent", "arguments": arguments})
            assert bad["result"]["isError"], arguments
        assert (await server.get("/v1/runs"))[1]["data"] == []


async def test_no_run_begins_whose_stream_could_not_be_opened() -> None:
    """P3, P10."""
    setting = Setting(options=ServerOptions(limits=Limits(subscribers_max=1)))
    async with ChaosServer([Say("x"), Hang()]) as chaos, served(target_of(chaos), setting=setting) as server:
        client = RpcClient(server)
        call = {"name": "run_agent", "arguments": {"message": "hi"}, "_meta": {"progressToken": 1}}
        async with aclosing(client.stream(client.message("tools/call", call))) as frames:
            await anext(frames)
            full = await client.asked("tools/call", call)
            assert full["error"]["data"]["code"] == "too_many_streams"
            assert (await client.result("tools/list"))["tools"]
        assert len((await server.get("/v1/runs"))[1]["data"]) == 1


@for_each_row("version", [OLD, NEW])
async def test_sessions_are_resources_page_by_page(version: str) -> None:
    async with ChaosServer([Say("x")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        for at in range(55):
            await server.post("/api/sessions", {"session_id": f"s {at}", "title": f"title {at}"})
        client = await RpcClient(server, version).begun()
        first = await client.result("resources/list")
        rest = await client.result("resources/list", {"cursor": first["nextCursor"]})
        assert (len(first["resources"]), len(rest["resources"]), "nextCursor" in rest) == (50, 5, False)
        uris = {one["uri"] for one in [*first["resources"], *rest["resources"]]}
        assert uris == {f"holdfast://sessions/s%20{at}" for at in range(55)}
        await server.ended(await server.start("hello there", session_id="s 7"))
        for suffix, kind in (("", "text/markdown"), ("/json", "application/json")):
            uri = f"holdfast://sessions/s%207{suffix}"
            [read] = (await client.result("resources/read", {"uri": uri}))["contents"]
            assert (read["uri"], read["mimeType"], "hello there" in read["text"]) == (uri, kind, True)
        await server.call("DELETE", "/api/sessions/s%209")
        for gone in ("holdfast://sessions/s%209", "holdfast://sessions/none", "holdfast://sessions/a/b"):
            error = (await client.asked("resources/read", {"uri": gone}))["error"]
            assert (error["code"], error["data"]["uri"]) == (-32002 if version == OLD else -32602, gone)
        assert len((await client.result("resources/templates/list"))["resourceTemplates"]) == 2
        for name, value, fits in (
            ("session_id", "s 5", ["s 54", "s 53", "s 52", "s 51", "s 50", "s 5"]),
            ("session_id", "TITLE 7", ["s 7"]),
            ("task", "s", []),
        ):
            about = {"type": "ref/prompt", "name": "holdfast"}
            asked = {"ref": about, "argument": {"name": name, "value": value}}
            completed = await client.result("completion/complete", asked)
            assert sorted(completed["completion"]["values"]) == sorted(fits)
        page = await client.tool("list_sessions", limit=2)
        assert len(page["structuredContent"]["sessions"]) == 2
        following = await client.tool(
            "list_sessions", limit=100, cursor=page["structuredContent"]["next_cursor"]
        )
        assert len(following["structuredContent"]["sessions"]) == 52
        found = await client.tool("list_sessions", query="hello")
        assert [one["session_id"] for one in found["structuredContent"]["sessions"]] == ["s 7"]
        told = await client.tool("read_session", session_id="s 7", limit=1)
        assert told["structuredContent"]["next_before"] > 0
        assert "hello there" not in told["content"][0]["text"]
        assert (await client.tool("read_session", session_id="none"))["structuredContent"][
            "code"
        ] == "session_not_found"


async def test_a_subscription_outlives_the_server_and_tells_of_each_change() -> None:
    """P6, P7: up to 2025, it's under the id of the client's session."""
    disk = MemoryDisk()
    async with ChaosServer([Say("x")], after_last="repeat") as chaos:
        async with served(target_of(chaos), store=MemoryStore(disk)) as server:
            for name in ("s", "t"):
                await server.post("/api/sessions", {"session_id": name})
            client = await RpcClient(server, OLD).begun()
            uri = "holdfast://sessions/s"
            async with aclosing(client.got()) as frames:
                reading = asyncio.ensure_future(anext(frames))
                await server.until_streams(1)
                await client.result("resources/subscribe", {"uri": uri})
                await server.ended(await server.start("hi", session_id="t"))
                await server.ended(await server.start("hi", session_id="s"))
                _, said = await reading
            assert (said["method"], said["params"]) == ("notifications/resources/updated", {"uri": uri})
        async with served(target_of(chaos), store=MemoryStore(disk)) as server:
            again = RpcClient(server, OLD, session=client.session)
            async with aclosing(again.got()) as frames:
                assert (await anext(frames))[1]["params"] == {"uri": uri}  # it may have missed something
            await again.result("resources/unsubscribe", {"uri": uri})
            new = RpcClient(server)
            wanted = {"notifications": {"resourceSubscriptions": [uri], "toolsListChanged": True}}
            message = new.message("subscriptions/listen", wanted)
            async with aclosing(new.stream(message)) as frames:
                _, first = await anext(frames)
                assert first["params"]["notifications"] == {"resourceSubscriptions": [uri]}
                await server.ended(await server.start("hi", session_id="s"))
                _, changed = await anext(frames)
                meta = {f"{META}subscriptionId": message["id"]}
                assert changed["params"] == {"uri": uri, "_meta": meta}
