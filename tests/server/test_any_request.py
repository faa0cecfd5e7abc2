"""Whatever is sent to whatever route: never a failure of ours, always the envelope."""

import asyncio
import random
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import aiohttp
import yarl

from fakes.bad_requests import bad_requests
from holdfast.chaos import ChaosServer, Say
from serving import Served, served, target_of
from stores import SqliteStore

ROUNDS = 3
BAD = 800  # bench/fuzz_server.py sends as many as one likes
SEED = 20_240_601
TEXTS = ("", "x", "\x00", "é\u202e", "a" * 300, "../..", "null", "-1", "1e999", "resp_x", "run_x", "[answer]")


def anything(chance: random.Random, depth: int = 0) -> Any:
    """Some JSON."""
    leaves = [None, True, False, 0, -1, 10**30, 0.5, chance.choice(TEXTS)]
    if depth > 2 or chance.random() < 0.5:
        return chance.choice(leaves)
    if chance.random() < 0.5:
        return [anything(chance, depth + 1) for _ in range(chance.randrange(3))]
    keys = ("role", "content", "type", "text", "id", "blob")
    return {chance.choice(keys): anything(chance, depth + 1) for _ in range(chance.randrange(3))}


def body_for(chance: random.Random, properties: list[str]) -> Any:
    """An object with some of the route's own fields, right and wrong."""
    if chance.random() < 0.1:
        return anything(chance)
    body = {name: anything(chance) for name in properties if chance.random() < 0.4}
    if "input" in properties and chance.random() < 0.5:
        body["input"] = "hi"
    return body


async def test_no_request_is_answered_with_a_failure_of_ours(tmp_path: Path) -> None:
    """P12: bad input gets a clear error; the seed makes it the same every time."""
    chance = random.Random(SEED)
    store = await SqliteStore.open(tmp_path / "holdfast.db")
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos), store=store) as server,
    ):
        run_id = await server.start(session_id="s")
        await server.ended(run_id)
        _, document = await server.get("/openapi.json")
        schemas = document["components"]["schemas"]
        for _ in range(ROUNDS):
            for path, methods in document["paths"].items():
                if path.endswith(("/events", "/chat/stream")):
                    continue
                for method, operation in methods.items():
                    content = operation.get("requestBody", {}).get("content", {})
                    schema = content.get("application/json", {}).get("schema", {})
                    schema = schema.get("anyOf", [schema])[0]
                    named = schemas.get(schema.get("$ref", "").rpartition("/")[2], {})
                    url = path.replace("{run_id}", run_id).replace(
                        "{session_id}", chance.choice(("s", "t%00", "é"))
                    )
                    for name in ("message_id", "approval_id", "question_id", "response_id", "blob"):
                        url = url.replace(f"{{{name}}}", chance.choice(("x", "%ff", "..%2f")))
                    query = "&".join(
                        f"{one['name']}={chance.choice(('', 'x', '-1', '%ff', '0', 'true'))}"
                        for one in operation["parameters"]
                        if one["in"] == "query"
                    )
                    fields = [name for name in named.get("properties", {}) if name != "stream"]
                    body = body_for(chance, fields) if named else None
                    answer = await server.call(method.upper(), f"{url}?{query}", body=body)
                    assert answer.status not in {500, 503}, (method, url, query, body, answer.body)
                    if answer.status >= 400:
                        assert answer.json["error"]["message"], (url, answer.body)
    await store.close()


async def left_behind(server: Served) -> dict[str, int]:
    """What there is of everything that a request could leave behind."""
    await server.until_streams(0)
    _, runs = await server.get("/v1/runs")
    _, sessions = await server.get("/api/sessions?all=true")
    _, keys = await server.get("/api/keys")
    return {
        "runs": len(runs["data"]),
        "sessions": len(sessions["data"]),
        "keys": len(keys["data"]),
        "tasks": len(asyncio.all_tasks()),
        "sockets": await asyncio.to_thread(open_sockets),
    }


def open_sockets() -> int:
    """Of this process; the store opens files on demand, so other files say nothing."""
    sockets = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing itself was open
            sockets += link.readlink().name.startswith("socket:")
    return sockets


async def test_bad_requests_are_refused_and_leave_nothing_behind(tmp_path: Path) -> None:
    """P12: whatever is wrong with them, there is no run, session, key, task or socket more than before."""
    store = await SqliteStore.open(tmp_path / "holdfast.db")
    async with ChaosServer() as chaos, served(target_of(chaos), store=store) as server:
        _, document = await server.get("/openapi.json")
        before = await left_behind(server)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=1)) as http:
            for bad in islice(bad_requests(document, seed=SEED), BAD):
                url = yarl.URL(server.url + bad.target, encoded=True)
                async with http.request(bad.method, url, data=bad.body, headers=bad.headers) as answer:
                    body = await answer.read()
                    assert answer.status < 500, (bad, body)
                    if bad.method != "GET":
                        assert answer.status >= 400, (bad, body)
                    if answer.status >= 400:
                        anthropic = (
                            bad.target.startswith("/v1/messages") and b'{"type":"error","error":{' in body
                        )
                        rpc = bad.target.startswith("/mcp") and b'"error":{"code":' in body
                        assert anthropic or rpc or b'{"error":{"message":' in body or bad.method == "HEAD", (
                            bad,
                            body,
                        )
        after: dict[str, int] = {}
        while after != before:  # a connection is closed a moment after its client has left
            after = await left_behind(server)
        assert not chaos.seen.requests
    await store.close()
