"""What bench/wire.py plays beside the good scenarios: bad requests to every route, and models that fail."""

import asyncio
from typing import Any

from wire_model import Model
from wire_record import Client, Frame
from wire_scenes import Scene, played, quiet, shown

IDS = {
    "run_id": "run_none", "session_id": "none", "approval_id": "apr_none", "question_id": "que_none",
    "blob": "none", "message_id": "msg_none", "grant_id": "none", "response_id": "resp_none", "model": "none",
    "name": "none",
}  # fmt: skip
NEEDED: dict[str, Any] = {
    "input": "play:plain", "choice": "once", "answer": "x", "action": "try_now", "to_seq": 1, "text": "x",
    "path": "/x", "name": "n", "messages": [{"role": "user", "content": "play:plain"}],
}  # fmt: skip


def routes_of(openapi: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every documented route, by its method and path."""
    return {
        f"{method.upper()} {path}": operation
        for path, operations in openapi["paths"].items()
        for method, operation in operations.items()
    }


def body_of(openapi: dict[str, Any], operation: dict[str, Any]) -> dict[str, Any] | None:
    """The schema of a route's JSON body."""
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if schema is None:
        return None
    named = schema.get("anyOf", [schema])[0]["$ref"].rpartition("/")[2]
    return openapi["components"]["schemas"][named]


def first(_: Frame) -> bool:
    return True


async def strangers(c: Client, _model: Model) -> None:
    """No key, a wrong key, and a key without the scope, on every route."""
    openapi = (await c.ask("GET", "/openapi.json")).json
    bearers = {
        "no key": {},
        "wrong": {"Authorization": "Bearer wrong"},
        "odd": {"Authorization": "Basic eA=="},
    }
    bearers |= {name: {"Authorization": f"Bearer {c.book.keys[name]}"} for name in ("talker", "approver")}
    for route in routes_of(openapi):
        for who, headers in bearers.items():
            if route == "GET /api/events" and who == "talker":
                continue  # it may read this stream, which has no end
            c.book.note(who)
            await c.call(route, headers=headers, until=first, ids=IDS)


async def missing(c: Client, _model: Model) -> None:
    """Ids that nothing has, with a body that would do, and with a field that nobody knows."""
    openapi = (await c.ask("GET", "/openapi.json")).json
    for route, operation in routes_of(openapi).items():
        if "{" not in route:
            continue
        schema = body_of(openapi, operation)
        needed = {name: NEEDED[name] for name in (schema or {}).get("required", [])}
        if route.endswith(("/steer", "/messages", "/chat", "/chat/stream")):
            needed["message" if "/api/" in route else "text"] = "play:plain"
        for body in [None] if schema is None else [needed, {**needed, "no_such_field": 1}]:
            await c.call(route, body, ids=IDS | {"session_id": "none-at-all"})
    await quiet(c, "none-at-all")


async def malformed(c: Client, _model: Model) -> None:
    """Bodies that are no JSON, no object, or hold a field of the wrong type, at a run that is over."""
    run_id, session_id = await played(c, "plain")
    openapi = (await c.ask("GET", "/openapi.json")).json
    ids = IDS | {"run_id": run_id, "session_id": session_id}
    for route, operation in routes_of(openapi).items():
        schema = body_of(openapi, operation)
        if schema is None:
            continue
        raw = (
            b'{"a":',
            b"[]",
            b"7",
            b'"x"',
            b"\xff",
            *((b"", b"null", b"{}") if schema.get("required") else ()),
        )
        for body in raw:
            await c.call(route, body, ids=ids)
        for name in schema["properties"]:
            needed = {one: NEEDED[one] for one in schema.get("required", [])}
            if route == "POST /v1/runs" or "/chat" in route:
                needed["messages" if "completions" in route else "input"] = NEEDED[
                    "messages" if "completions" in route else "input"
                ]
            for wrong in ({"bad": [1]}, ["bad"]):
                answer = await c.call(route, {**needed, name: wrong}, ids=ids)
                if answer.status == 202:
                    await c.ended(answer.json["run_id"])
    await quiet(c, session_id)


async def failing(c: Client, _model: Model) -> None:
    """Models that fail for good, in every form in which a client may wait for them."""
    for play in ("failed", "bad_key", "down"):
        await shown(c, *await played(c, play))
        talk = {"messages": [{"role": "user", "content": f"play:{play}"}]}
        for stream in (False, True):
            await c.call("POST /v1/chat/completions", {**talk, "stream": stream})
            await c.call("POST /v1/responses", {"input": f"play:{play}", "stream": stream})
        await c.ask("POST", "/api/sessions", data=b'{"id":"failing"}')
        await c.call(
            "POST /api/sessions/{session_id}/chat", {"message": f"play:{play}"}, session_id="failing"
        )
        await c.call(
            "POST /api/sessions/{session_id}/chat/stream", {"message": f"play:{play}"}, session_id="failing"
        )
    await c.call("GET /api/targets")
    await c.call("GET /health/detailed")


async def gated(c: Client, _model: Model) -> None:
    """A provider that names a time far away, and a person who does not wait for it."""
    run_id, session_id = await c.start("play:limited")
    await c.seen(session_id, "call.gated")
    await c.call("GET /v1/runs/{run_id}", run_id=run_id)
    await c.call("GET /api/sessions/{session_id}/messages", session_id=session_id)
    await c.call("GET /api/targets")
    await c.call("POST /v1/runs/{run_id}/gate", {"action": "wait"}, run_id=run_id)
    await c.call("POST /v1/runs/{run_id}/gate", {"action": "try_now"}, run_id=run_id)
    await c.ended(run_id)
    await c.call("POST /v1/runs/{run_id}/gate", {"action": "try_now"}, run_id=run_id)
    await shown(c, run_id, session_id)


async def switched(c: Client, _model: Model) -> None:
    """A default target that fails, on a server that has a second one and asks for no key."""
    await shown(c, *await played(c, "retry"))
    await shown(c, *await played(c, "down"))
    await c.call("GET /api/targets")
    await c.call("GET /v1/models")
    await shown(c, *await played(c, "plain", model="spare"))


async def open_server(c: Client, _model: Model) -> None:
    """What is different where no key is needed."""
    await c.call("POST /api/sign-in", {"key": "any"})
    for route in (
        "POST /api/sign-out",
        "POST /api/sign-in-links",
        "GET /api/keys",
        "GET /v1/capabilities",
        "GET /health",
    ):
        await c.call(route)
    await c.call("POST /api/keys", {"name": "one"})
    await c.call("POST /api/tickets", {"path": "/x"})
    await c.call("GET /v1/runs", headers={"Origin": "http://elsewhere.example"})
    run_id, session_id = await c.start("play:echo")
    await asyncio.gather(c.seen(session_id, "approval.asked"))
    await c.call("POST /v1/runs/{run_id}/approval", {"choice": "once"}, run_id=run_id)
    await c.ended(run_id)
    await shown(c, run_id, session_id)


BAD: list[Scene] = [strangers, missing, malformed]
FAILING: list[Scene] = [failing]
GATED: list[Scene] = [gated]
OPEN: list[Scene] = [open_server, switched]
