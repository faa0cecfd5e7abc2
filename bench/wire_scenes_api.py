"""What bench/wire.py plays beside runs: sessions, lists, the OpenAI routes, blobs, keys, signing in."""

import asyncio
from typing import Any

from wire_model import Model
from wire_record import ADMIN, Answer, Client
from wire_scenes import Scene, auth, played, shown

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360f8cf500f000484018"
    "0b7c8f2e50000000049454e44ae426082"
)


async def sessions(c: Client, _model: Model) -> None:
    make = "POST /api/sessions"
    one = "/api/sessions/{session_id}"
    for body in (
        None,
        {},
        {"id": "named", "title": "Named  session"},
        {"id": "named"},
        {"id": "a/b"},
        {"workspace": "x"},
    ):
        await c.call(make, body)
    key = auth(Idempotency_Key="session-1")
    for body in ({"title": "Once"}, {"title": "Once"}, {"title": "Twice"}):
        await c.call(make, body, headers=key)
    changes: list[dict[str, Any]] = [
        {"title": "Renamed harbour"}, {"pinned": True}, {"read_seq": 2}, {"archived": True},
        {"archived": False},
        {"pinned": False}, {}, {"title": ""}, {"read_seq": -1},
    ]  # fmt: skip
    for body in changes:
        await c.call(f"PATCH {one}", body, session_id="named")
    for text in ("a draft", "", "x" * 10):
        await c.call(f"PUT {one}/draft", {"text": text}, session_id="named")
        await c.call(f"GET {one}/draft", session_id="named")
    await c.call(f"GET {one}/draft", session_id="none")
    await c.call(f"DELETE {one}", session_id="named")
    for route in (f"GET {one}", f"PATCH {one}", f"GET {one}/messages", f"DELETE {one}"):
        await c.call(route, session_id="named")
    await c.call("POST /v1/runs", {"input": "play:plain", "session_id": "named"})
    await c.call(f"POST {one}/undelete", session_id="named")
    await c.call(f"POST {one}/undelete", session_id="named")
    await c.call(f"DELETE {one}", session_id="named", query="?now=true")
    await c.call(f"DELETE {one}", session_id="named", query="?now=perhaps")
    await c.call(f"POST {one}/undelete", session_id="named")
    await c.call(make, {"id": "named", "title": "A second life"})
    await c.call(f"GET {one}/events", session_id="named", query="?limit=5&after=3@0123456789abcdef")


async def lists(c: Client, _model: Model) -> None:
    c.book.names.is_numbered = False  # sessions of the same millisecond stand in the order of their ids
    for n in (1, 2):
        await played(c, f"plain {'xylophone ' * n}", session_id=f"search-{n}")
    queries = (
        "", "?limit=3", "?limit=3&offset=2", "?offset=x", "?limit=0", "?limit=x", "?archived=true",
        "?all=true&limit=50",
        "?q=xylophone", "?q=xylo&limit=1", "?q=nothing-of-it", "?q=", "?archived=perhaps", "?cursor=x",
        "?q=answer&session_id=fork-two",
    )  # fmt: skip
    for query in queries:
        await c.call("GET /api/sessions", query=query)
    page = await c.call("GET /api/sessions", query="?limit=2")
    if cursor := page.json.get("next_cursor"):
        await c.call("GET /api/sessions", query=f"?limit=2&cursor={cursor}")
    for query in (
        "?limit=2",
        "?status=failed",
        "?status=completed&limit=2",
        "?status=x",
        "?cursor=x",
        "?session_id=none",
    ):
        await c.call("GET /v1/runs", query=query)
    page = await c.call("GET /v1/runs", query="?limit=2")
    await c.call("GET /v1/runs", query=f"?limit=2&cursor={page.json['next_cursor']}")
    route = "GET /api/sessions/{session_id}/messages"
    page = await c.call(route, session_id="fork-two", query="?limit=1")
    await c.call(route, session_id="fork-two", query=f"?limit=1&before={page.json['next_before']}")
    for query in ("?limit=x", "?before=x", "?before=0"):
        await c.call(route, session_id="fork-two", query=query)
    await c.call("GET /api/sessions/{session_id}/export", session_id="fork-two", query="?format=pdf")


async def news(c: Client, _model: Model) -> None:
    """The streams without end: they are left once they have told of a change of the list."""

    async def told(path: str, title: str) -> None:
        reader = asyncio.ensure_future(c.ask("GET", path, until=lambda frame: title in str(frame.data)))
        await asyncio.sleep(0.5)
        await c.ask("PATCH", "/api/sessions/fork-two", data=b'{"title":"%b"}' % title.encode())
        c.book.add(f"GET {path} until {title}", None, {}, await reader)

    c.book.called.add("GET /api/events")
    await asyncio.sleep(0.5)
    await told("/api/events", "told-1")
    await asyncio.sleep(0.5)
    await told("/api/sessions/fork-of-it/events?after=99999", "told-2")


async def chat(c: Client, _model: Model) -> None:
    talk, stream = "POST /api/sessions/{session_id}/chat", "POST /api/sessions/{session_id}/chat/stream"
    for n, route in enumerate((talk, stream)):
        session_id = f"chat-{n}"
        await c.call(route, {"message": "play:plain"}, session_id=session_id)
        await c.ask("POST", "/api/sessions", data=b'{"id":"%b"}' % session_id.encode())
        for play in ("plain", "think", "cut", "refused"):
            await c.call(route, {"message": f"play:{play}"}, session_id=session_id)
        await c.call(route, {"input": "play:read"}, session_id=session_id)
        key = auth(Idempotency_Key=f"chat-{n}")
        for text in ("play:again", "play:again", "play:plain"):
            await c.call(route, {"message": text}, session_id=session_id, headers=key)
        await c.call(route, {"message": ""}, session_id=session_id)
        await c.call("GET /api/sessions/{session_id}/messages", session_id=session_id)


async def completions(c: Client, _model: Model) -> None:
    route = "POST /v1/chat/completions"
    for play in ("plain", "think", "cut", "refused", "filtered", "empty", "read"):
        for stream in (False, True):
            body = {
                "model": "holdfast/main",
                "messages": [{"role": "user", "content": f"play:{play}"}],
                "stream": stream,
            }
            await c.call(route, body)
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "play:plain"}]
    await c.call(route, {"messages": talk, "stream": True, "stream_options": {"include_usage": True}})
    await c.call(route, {"messages": talk, "session_id": "by-body", "temperature": 0.1, "max_tokens": 9})
    await c.call(route, {"messages": talk}, headers=auth(X_Hermes_Session_Id="by-header"))
    await c.call(route, {"messages": talk, "model": "unknown"})
    key = auth(Idempotency_Key="completion-1")
    for _ in range(2):
        await c.call(route, {"messages": talk}, headers=key)
    await c.call(route, {"messages": talk, "stream": True}, headers=key)
    bad: list[list[Any]] = [
        [],
        [{"role": "robot", "content": "x"}],
        [{"role": "assistant", "content": "x"}],
        [{"content": "x"}],
    ]
    for messages in bad:
        await c.call(route, {"messages": messages})
    for n in ("by-body", "by-header"):
        await c.call("GET /api/sessions/{session_id}", session_id=n)


async def completion_asks(c: Client, _model: Model) -> None:
    """A completion whose tool is approved by somebody else meanwhile."""
    headers = auth(X_Hermes_Session_Id="asks-in-chat")
    await c.ask("POST", "/api/sessions", data=b'{"id":"asks-in-chat"}')
    for stream in (False, True):
        body = {"messages": [{"role": "user", "content": "play:echo"}], "stream": stream}
        reader = asyncio.ensure_future(c.call("POST /v1/chat/completions", body, headers=headers))
        asked = await c.seen("asks-in-chat", "approval.asked", 1 + stream)
        await c.ask("POST", f"/v1/runs/{asked['run_id']}/approval", data=b'{"choice":"once"}')
        await reader


async def models(c: Client, _model: Model) -> None:
    await c.call("GET /v1/models")
    for name in ("main", "main-model", "none"):
        await c.call("GET /v1/models/{model}", model=name)


async def responses(c: Client, _model: Model) -> None:
    route = "POST /v1/responses"
    made: dict[str, Any] = {}
    for play in ("plain", "think", "cut", "refused", "read"):
        made = (
            await c.call(route, {"model": "holdfast/main", "input": f"play:{play}", "metadata": {"k": "v"}})
        ).json
        await c.call(route, {"model": "holdfast/main", "input": f"play:{play}", "stream": True})
    openai = auth(User_Agent="OpenAI/Python 2.0.0")
    made = (await c.call(route, {"input": "play:read"}, headers=openai)).json
    await c.call(route, {"input": "play:read", "stream": True}, headers=openai)
    one = "/v1/responses/{response_id}"
    follow = {"input": "play:again", "previous_response_id": made["id"], "instructions": "Be brief."}
    later = (await c.call(route, follow)).json
    for response_id in (made["id"], later["id"]):
        for query in ("", "?stream=true", "?stream=true&starting_after=3", "?stream=true&starting_after=999",
                      "?starting_after=x&stream=true", "?stream=x"):  # fmt: skip
            await c.call(f"GET {one}", response_id=response_id, query=query)
        for query in ("", "?order=asc", "?limit=1", "?limit=0", "?order=x", "?after=none"):
            await c.call(f"GET {one}/input_items", response_id=response_id, query=query)
    item = made["output"][-1]["id"]
    again: list[Any] = [{"type": "item_reference", "id": item}, {"role": "user", "content": "play:plain"}]
    await c.call(route, {"input": again})
    await c.call(route, {"input": [{"type": "item_reference", "id": "none"}, *again[1:]]})
    for talk in ("talk", "talk", {"id": "talk"}):
        await c.call(route, {"input": "play:plain", "conversation": talk})
    await c.call(route, {"input": "play:plain", "store": False})
    await c.call(f"POST {one}/cancel", response_id=later["id"])
    for _ in range(2):
        await c.call(f"DELETE {one}", response_id=later["id"])
    for query in (f"GET {one}", f"GET {one}/input_items", f"POST {one}/cancel"):
        await c.call(query, response_id=later["id"])


async def responses_background(c: Client, model: Model) -> None:
    one = "/v1/responses/{response_id}"
    answer = await c.ask("POST", "/v1/responses", data=b'{"input":"play:stopped","background":true}')
    body = answer.body.replace(b'"in_progress"', b'"queued"')  # which of them is a matter of time
    c.book.add(
        "POST /v1/responses in the background", None, {}, Answer(answer.status, answer.headers, body, [])
    )
    made = answer.json
    await model.reached("never")
    run_id = made["id"].replace("resp_", "run_")
    session_id = (await c.ask("GET", f"/v1/runs/{run_id}")).json["session_id"]
    await c.seen(session_id, "text.delta")
    await c.call(f"GET {one}", response_id=made["id"])
    await c.call(f"POST {one}/cancel", response_id=made["id"])
    await c.call(f"GET {one}", response_id=made["id"])
    await c.call(f"GET {one}", response_id=made["id"], query="?stream=true")
    await shown(c, run_id, session_id)


async def blobs(c: Client, _model: Model) -> None:
    made = (await c.call("POST /api/blobs", PIXEL)).json
    await c.call("POST /api/blobs", b"")
    await c.call("POST /api/blobs", PIXEL, headers=auth(Content_Encoding="gzip"))
    for query in ("", "?media_type=image/png", "?media_type=text/html"):
        await c.call("GET /api/blobs/{blob}", blob=made["blob"], query=query)
    await c.call("GET /api/blobs/{blob}", blob="none")
    image = {"kind": "image", "blob": made["blob"], "media_type": "image/png", "name": "a.png"}
    await shown(c, *await played(c, "plain", parts=[image]))
    await shown(c, *await played(c, "plain", parts=[{**image, "kind": "file"}]))
    await c.call("POST /v1/runs", {"input": "play:plain", "parts": [{**image, "blob": "0" * 64}]})
    for url in ("data:image/png;base64," + "iVBORw0KGgo=", "http://127.0.0.1/x.png", "data:nonsense"):
        parts = [{"type": "text", "text": "play:plain"}, {"type": "image_url", "image_url": {"url": url}}]
        await c.call("POST /v1/chat/completions", {"messages": [{"role": "user", "content": parts}]})


async def keys(c: Client, _model: Model) -> None:
    make = "POST /api/keys"
    for name, scope in (("talker", "chat"), ("approver", "approve")):
        made = (await c.call(make, {"name": name, "scopes": [scope]})).json
        c.book.keys[name] = next(value for value in made.values() if str(value).startswith("hf-"))
    bad: list[dict[str, Any]] = [
        {"name": "talker"},
        {"name": ""},
        {"name": "x" * 300},
        {"name": "y", "scopes": []},
        {"name": "all"},
    ]
    for body in bad:
        await c.call(make, body)
    await c.call("GET /api/keys")
    for name in ("all", "all", "none"):
        await c.call("DELETE /api/keys/{name}", name=name)
    configured = (await c.ask("GET", "/api/keys")).json["data"][0]["name"]
    await c.call("DELETE /api/keys/{name}", name=configured)


async def signing_in(c: Client, _model: Model) -> None:
    route = "POST /api/sign-in"
    link = (await c.call("POST /api/sign-in-links")).json
    page = {"Origin": c.url, "X-Holdfast-Page": ""}
    for body in (
        {"token": link["token"]},
        {"token": link["token"]},
        {"key": "wrong"},
        {},
        {"key": c.book.keys["talker"]},
    ):
        await c.call(route, body, headers=page)
    await c.call(route, {"key": ADMIN}, headers={"Origin": c.url})
    await c.call(route, {"key": ADMIN}, headers={"Origin": "http://elsewhere.example"})
    answer = await c.call(route, {"key": ADMIN}, headers={})
    cookie = {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}
    signed = {**cookie, "X-Holdfast-Page": answer.json["page"]}
    c.book.names.secret(answer.json["page"])
    blob = (await c.ask("POST", "/api/blobs", data=PIXEL)).json["blob"]
    await c.call("GET /v1/models", headers=cookie)
    await c.call("GET /v1/models", headers=signed)
    path = f"/api/blobs/{blob}?media_type=image/png"
    await c.call("POST /api/tickets", {"path": path})
    for one in (path, "relative", "/" + "x" * 3000):
        made = await c.call("POST /api/tickets", {"path": one}, headers=signed)
        if made.status == 201:
            ticket = made.json["ticket"]
            c.book.add(
                "GET path with ticket",
                None,
                {},
                await c.ask("GET", f"{path}&ticket={ticket}", headers=cookie),
            )
            c.book.add(
                "GET path, other browser", None, {}, await c.ask("GET", f"{path}&ticket={ticket}", headers={})
            )
            c.book.add(
                "GET other path", None, {}, await c.ask("GET", f"/v1/models?ticket={ticket}", headers=cookie)
            )
    await c.call("POST /api/sign-out", headers=signed)
    await c.call("GET /v1/models", headers=signed)
    await c.call("POST /api/sign-out")


async def about(c: Client, _model: Model) -> None:
    for route in ("GET /health", "GET /v1/health", "GET /health/detailed", "GET /v1/capabilities",
                  "GET /api/targets", "GET /metrics", "GET /docs", "GET /openapi.json"):  # fmt: skip
        await c.call(route)
        await c.call(route, headers={})
    await c.call("GET /health", headers={"Host": "elsewhere.example"})
    others = (
        "GET /none, GET /v1/no, GET /api/no, DELETE /v1/runs, OPTIONS /v1/runs, HEAD /health, PUT /health"
    )
    for method, _, path in (one.partition(" ") for one in others.split(", ")):
        answer = await c.ask(method, path)
        if answer.headers.get("content-type", "").startswith("text/html"):
            answer = type(answer)(answer.status, answer.headers, b"", [])
        c.book.add(f"{method} {path}", None, {}, answer)
    key = auth(Idempotency_Key="run-1")
    for text in ("play:plain", "play:plain", "play:again"):
        made = await c.call("POST /v1/runs", {"input": text}, headers=key)
        if made.status == 202:
            await c.ended(made.json["run_id"])
    await c.call("POST /v1/runs", {"input": "play:plain"}, headers=auth(Idempotency_Key="x" * 300))


async def deep(c: Client, _model: Model) -> None:
    """Bodies past the limits of the server."""
    route = "POST /v1/runs"
    await c.call(route, b'{"input":' + b"[" * 100 + b"]" * 100 + b"}")
    await c.call(route, b'{"input":"play:plain"}', headers=auth(Content_Encoding="br"))
    await c.call(route, b"\xff\xfe")
    await c.call(route, b'{"input":"\\ud800"}')
    await c.call(route, b'{"input":[' + b'"x",' * 1500 + b'"y"]}')
    await c.call(route, b'{"input":"' + b"x" * 10_000_001 + b'"}')


API_SCENES: list[Scene] = [
    sessions, lists, news, chat, completions, completion_asks, models, responses, responses_background, blobs,
    keys, signing_in, about, deep,
]  # fmt: skip
