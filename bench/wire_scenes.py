"""What bench/wire.py plays with runs: each function is one scenario, in the order of RUN_SCENES."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from wire_model import Model
from wire_record import ADMIN, Client, Frame

Scene: TypeAlias = Callable[[Client, Model], Awaitable[None]]
JSON = {"Authorization": f"Bearer {ADMIN}", "Accept": "application/json"}


def auth(**more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {ADMIN}", **{name.replace("_", "-"): one for name, one in more.items()}}


def ends(frame: Frame) -> bool:
    return frame.name == "run.ended"


async def shown(c: Client, run_id: str, session_id: str) -> None:
    """A run that is over, in every view that there is of it."""
    await c.call("GET /v1/runs/{run_id}", run_id=run_id)
    for view in ("hermes", "native"):
        await c.call("GET /v1/runs/{run_id}/events", run_id=run_id, query=f"?view={view}")
        await c.call("GET /v1/runs/{run_id}/events", run_id=run_id, query=f"?view={view}", headers=JSON)
    await c.call("GET /api/sessions/{session_id}", session_id=session_id)
    await c.call("GET /api/sessions/{session_id}/messages", session_id=session_id)
    await c.call("GET /api/sessions/{session_id}/events", session_id=session_id, query="?limit=1000")
    for kind in ("json", "md"):
        await c.call("GET /api/sessions/{session_id}/export", session_id=session_id, query=f"?format={kind}")
    await c.call("GET /v1/responses/{response_id}", response_id=run_id.replace("run_", "resp_"))


async def played(c: Client, play: str, **fields: Any) -> tuple[str, str]:
    """A run from its start to its end."""
    run_id, session_id = await c.start(f"play:{play}", **fields)
    await c.ended(run_id)
    return run_id, session_id


def plain_scene(play: str) -> Scene:
    async def scene(c: Client, _model: Model) -> None:
        await shown(c, *await played(c, play))

    scene.__name__ = f"run_{play}"
    return scene


async def cursors(c: Client, _model: Model) -> None:
    run_id, session_id = await played(c, "think")
    whole = await c.ask("GET", f"/v1/runs/{run_id}/events?view=native")
    ids = [int(frame.id) for frame in whole.frames if frame.id]
    epoch = (await c.ask("GET", f"/api/sessions/{session_id}/messages")).json.get("epoch", "")
    spots = ["0", str(ids[0]), str(ids[len(ids) // 2]), str(ids[-2]), str(ids[-1]), "99999", "-1", "x", ""]
    spots += [f"{ids[3]}@{epoch}", f"{ids[3]}@0123456789abcdef", "@", f"{ids[3]}@"]
    for view in ("hermes", "native"):
        for spot in spots:
            route = "GET /v1/runs/{run_id}/events"
            await c.call(route, run_id=run_id, query=f"?view={view}&after={spot}")
            await c.call(route, run_id=run_id, query=f"?view={view}&cursor={spot}")
            await c.call(route, run_id=run_id, query=f"?view={view}", headers=auth(Last_Event_ID=spot))
    await c.call("GET /v1/runs/{run_id}/events", run_id=run_id, query="?view=other")
    route = "GET /api/sessions/{session_id}/events"
    for spot in spots:
        await c.call(route, session_id=session_id, query=f"?limit=3&after={spot}")
        until = None if spot in {"-1", "x", "", "@", str(ids[-1]), "99999"} else ends
        if until:
            await c.call(route, session_id=session_id, query=f"?after={spot}", until=until)
            await c.call(route, session_id=session_id, headers=auth(Last_Event_ID=spot), until=until)
            await c.call(route, session_id=session_id, query=f"?pace_ms=50&after={spot}", until=until)
    for query in ("?limit=0", "?limit=x", "?limit=5000", "?pace_ms=x&limit=2", "?pace_ms=99999&limit=2"):
        await c.call(route, session_id=session_id, query=query)
    for spot in ("-1", "x", "@"):
        await c.call(route, session_id=session_id, query=f"?after={spot}", until=lambda _: True)


async def live_streams(c: Client, model: Model) -> None:
    """Four readers of one answer that is under way, from its first half to its end."""
    made = await c.ask("POST", "/api/sessions", data=b'{"title":"live"}')
    session_id = made.json["id"]
    run_id, _ = await c.start("play:gated", session_id=session_id)
    await model.reached("gated")
    await c.seen(session_id, "text.delta")
    await c.call("GET /v1/runs/{run_id}", run_id=run_id)
    await c.call("GET /api/sessions/{session_id}/messages", session_id=session_id)
    await c.call("GET /v1/runs/{run_id}/events", run_id=run_id, headers=JSON)
    await c.call("GET /v1/runs", query=f"?session_id={session_id}&status=running")
    paths = [f"/v1/runs/{run_id}/events", f"/v1/runs/{run_id}/events?view=native"]
    readers = [asyncio.ensure_future(c.ask("GET", path)) for path in paths]
    readers.append(
        asyncio.ensure_future(c.ask("GET", f"/api/sessions/{session_id}/events", until=ends)),
    )
    await asyncio.sleep(0.2)
    model.open("gated")
    for path, answer in zip([*paths, "/events of the session"], await asyncio.gather(*readers), strict=True):
        answer.frames[:] = [frame for frame in answer.frames if frame.name != "session.changed"]
        c.book.add(f"GET {path} while it runs", None, {}, answer)


async def run_options(c: Client, _model: Model) -> None:
    fields: dict[str, Any] = {
        "instructions": "Be brief.", "metadata": {"a": "b", "n": 1}, "client_id": "mine", "model": "main",
        "temperature": 0.5, "max_output_tokens": 100, "reasoning_effort": "low", "on_restart": "interrupt",
        "on_disconnect": "detach", "budget": {"tokens": 100000, "turns": 5},
    }  # fmt: skip
    await shown(c, *await played(c, "plain", **fields))
    history = [{"role": "user", "content": "earlier"}, {"role": "assistant", "content": "said"}]
    await shown(c, *await played(c, "plain", conversation_history=history))
    body = {"input": [*history, {"role": "user", "content": [{"type": "text", "text": "play:plain"}]}]}
    made = (await c.call("POST /v1/runs", body)).json
    await c.ended(made["run_id"])
    await shown(c, made["run_id"], made["session_id"])
    for bad in (
        {"budget": {"tokens": -1}},
        {"workspace": "rel"},
        {"workspace": "/no/such"},
        {"session_id": "a/b"},
    ):
        await c.call("POST /v1/runs", {"input": "play:plain", **bad})
    await c.call("POST /v1/runs", {"input": "play:plain", "previous_response_id": "resp_none"})
    await c.call("POST /v1/runs", {"input": "  "})
    await shown(c, *await played(c, "read", budget={"turns": 1}, session_id="budget"))


async def approval_once(c: Client, _model: Model) -> None:
    run_id, session_id = await c.start("play:echo")
    asked = await c.seen(session_id, "approval.asked")
    await c.until_status(run_id, "waiting_for_approval")
    await c.call("GET /v1/runs/{run_id}", run_id=run_id)
    await c.call("GET /v1/approvals")
    await c.call("GET /api/sessions/{session_id}/messages", session_id=session_id)
    await c.call("GET /api/sessions", query="?limit=1")
    ids = {"run_id": run_id, "approval_id": asked["approval_id"]}
    for choice in ("", "?choice=session", "?choice=always", "?choice=never"):
        await c.call("GET /v1/runs/{run_id}/approval/{approval_id}/rule", query=choice, ids=ids)
    await c.call("GET /v1/runs/{run_id}/approval/{approval_id}/rule", run_id=run_id, approval_id="apr_none")
    route = "POST /v1/runs/{run_id}/approval"
    for body in (
        {"choice": "perhaps"},
        {"choice": "once", "approval_id": "apr_none"},
        {"choice": "once", "all": "x"},
    ):
        await c.call(route, body, run_id=run_id)
    await c.call(route, {"choice": "approve", "approval_id": asked["approval_id"]}, run_id=run_id)
    await c.ended(run_id)
    await c.call(route, {"choice": "once", "approval_id": asked["approval_id"]}, run_id=run_id)
    await c.call(route, {"choice": "once"}, run_id=run_id)
    await shown(c, run_id, session_id)


async def approval_denied(c: Client, _model: Model) -> None:
    for play, body in (("echo", {"choice": "deny", "reason": "not today"}), ("write", {"choice": "once"})):
        run_id, session_id = await c.start(f"play:{play}")
        await c.seen(session_id, "approval.asked")
        await c.call("GET /v1/approvals")
        await c.call("POST /v1/runs/{run_id}/approval", body, run_id=run_id)
        await c.ended(run_id)
        await shown(c, run_id, session_id)


async def approval_session(c: Client, _model: Model) -> None:
    run_id, session_id = await c.start("play:grant")
    await c.seen(session_id, "approval.asked")
    await c.call("POST /v1/runs/{run_id}/approval", {"choice": "session"}, run_id=run_id)
    await c.ended(run_id)
    await shown(c, run_id, session_id)
    rules = "GET /api/approvals/rules"
    found = (await c.call(rules, query=f"?session_id={session_id}")).json["data"]
    for query in (
        "",
        "?sessions=all",
        "?sessions=all&limit=1",
        "?sessions=x",
        "?session_id=none",
        "?limit=x",
    ):
        await c.call(rules, query=query)
    gone = "DELETE /api/approvals/rules/{grant_id}"
    await c.call(gone, grant_id=found[0]["grant_id"], query="?session_id=none")
    await c.call(gone, grant_id=found[0]["grant_id"], query=f"?session_id={session_id}")
    await c.call(gone, grant_id=found[0]["grant_id"])


async def approval_always(c: Client, _model: Model) -> None:
    run_id, session_id = await c.start("play:always")
    await c.seen(session_id, "approval.asked")
    await c.call("POST /v1/runs/{run_id}/approval", {"choice": "always"}, run_id=run_id)
    await c.ended(run_id)
    await shown(c, run_id, session_id)
    found = (await c.call("GET /api/approvals/rules")).json["data"]
    await shown(c, *await played(c, "always"))
    for _ in range(2):
        await c.call("DELETE /api/approvals/rules/{grant_id}", grant_id=found[0]["grant_id"])


async def approval_two(c: Client, _model: Model) -> None:
    run_id, session_id = await c.start("play:two")
    await c.seen(session_id, "approval.asked", 2)
    await c.call("GET /v1/approvals")
    await c.call("POST /v1/runs/{run_id}/approval", {"choice": "once"}, run_id=run_id)
    await c.call("POST /v1/runs/{run_id}/approval", {"choice": "once", "all": "yes"}, run_id=run_id)
    await c.ended(run_id)
    await shown(c, run_id, session_id)


async def question(c: Client, _model: Model) -> None:
    run_id, session_id = await c.start("play:ask")
    asked = await c.seen(session_id, "question.asked")
    await c.call("GET /v1/approvals")
    await c.call("GET /v1/runs/{run_id}", run_id=run_id)
    await c.call("GET /api/sessions/{session_id}/messages", session_id=session_id)
    route = "POST /v1/runs/{run_id}/question/{question_id}"
    ids = {"run_id": run_id, "question_id": asked["question_id"]}
    await c.call(route, {"answer": "x"}, run_id=run_id, question_id="que_none")
    await c.call(route, {"answer": "blue"}, ids=ids)
    await c.ended(run_id)
    await c.call(route, {"answer": "red"}, ids=ids)
    await shown(c, run_id, session_id)


async def stopped(c: Client, model: Model) -> None:
    for route in ("POST /v1/runs/{run_id}/stop", "POST /v1/runs/{run_id}/cancel"):
        run_id, session_id = await c.start("play:stopped")
        await model.reached("never")
        await c.seen(session_id, "text.delta")
        await c.call(route, {"reason": "enough"} if route.endswith("stop") else None, run_id=run_id)
        await c.ended(run_id)
        await c.call(route, run_id=run_id)
        await c.call(route, run_id=run_id, query="?total=true")
        await c.call(route, run_id=run_id, query="?total=maybe")
        await shown(c, run_id, session_id)


async def stopped_at_approval(c: Client, _model: Model) -> None:
    run_id, session_id = await c.start("play:echo")
    await c.seen(session_id, "approval.asked")
    await c.call("POST /v1/runs/{run_id}/stop", run_id=run_id)
    await c.ended(run_id)
    await shown(c, run_id, session_id)


async def steered(c: Client, _model: Model) -> None:
    run_id, session_id = await c.start("play:echo")
    await c.seen(session_id, "approval.asked")
    await c.call("POST /v1/runs/{run_id}/steer", {"text": "mind the gap", "client_id": "cl"}, run_id=run_id)
    await c.call("POST /v1/runs/{run_id}/messages", {"message": "and this", "mode": "steer"}, run_id=run_id)
    key = auth(Idempotency_Key="steer-1")
    for text in ("once", "once", "twice"):
        await c.call("POST /v1/runs/{run_id}/steer", {"input": text}, run_id=run_id, headers=key)
    await c.call("POST /v1/runs/{run_id}/messages", {"text": "play:again", "mode": "queue"}, run_id=run_id)
    await c.call("POST /v1/runs/{run_id}/messages", {"text": ""}, run_id=run_id)
    await c.call("POST /v1/runs/{run_id}/messages", {"text": "x", "mode": "shout"}, run_id=run_id)
    await c.call("GET /api/sessions/{session_id}/queue", session_id=session_id)
    await c.call("POST /v1/runs/{run_id}/approval", {"choice": "once"}, run_id=run_id)
    await c.seen(session_id, "run.ended", 2)
    await shown(c, run_id, session_id)
    await c.call("POST /v1/runs/{run_id}/steer", {"text": "too late"}, run_id=run_id)


async def redirected(c: Client, model: Model) -> None:
    run_id, session_id = await c.start("play:stopped")
    await model.reached("never")
    await c.seen(session_id, "text.delta")
    body = {"text": "play:again", "mode": "redirect"}
    await c.call("POST /v1/runs/{run_id}/messages", body, run_id=run_id)
    await c.ended(run_id)
    await shown(c, run_id, session_id)


async def queued(c: Client, _model: Model) -> None:
    run_id, session_id = await c.start("play:echo")
    await c.seen(session_id, "approval.asked")
    for text in ("play:plain one", "play:plain two", "play:plain three"):
        await c.start(text, session_id=session_id)
    for busy in ("reject", "queue", "steer", "redirect", "never"):
        await c.call(
            "POST /v1/runs", {"input": f"play:again {busy}", "session_id": session_id, "when_busy": busy}
        )
    waiting = (await c.call("GET /api/sessions/{session_id}/queue", session_id=session_id)).json["data"]
    ids = [one.get("message_id") or one["id"] for one in waiting]
    change, gone = (
        f"{method} /api/sessions/{{session_id}}/queue/{{message_id}}" for method in ("PATCH", "DELETE")
    )
    changes: list[dict[str, Any]] = [
        {"text": "play:again edited"},
        {"position": 2},
        {"position": -1},
        {"text": ""},
        {},
    ]
    for body in changes:
        await c.call(change, body, session_id=session_id, message_id=ids[0])
    await c.call(change, {"text": "x"}, session_id=session_id, message_id="msg_none")
    await c.call(gone, session_id=session_id, message_id=ids[1])
    await c.call(gone, session_id=session_id, message_id=ids[1])
    await c.call(gone, session_id=session_id, message_id="msg_none")
    await c.call(change, {"steer": True}, session_id=session_id, message_id=ids[2])
    await c.seen(session_id, "run.ended")
    await c.call(
        change, {"text": "play:again changed", "position": 0}, session_id=session_id, message_id=ids[3]
    )
    await c.call(gone, session_id=session_id, message_id=ids[-1])
    await c.seen(session_id, "run.ended", 2)
    await c.call("POST /api/sessions/{session_id}/queue/pause", session_id=session_id)
    await c.call("GET /api/sessions/{session_id}/messages", session_id=session_id)
    await c.call("GET /api/sessions/{session_id}", session_id=session_id)
    await c.call("POST /v1/runs/{run_id}/approval", {"choice": "once"}, run_id=run_id)
    await c.ended(run_id)
    await c.call("GET /api/sessions/{session_id}/queue", session_id=session_id)
    await c.call("POST /api/sessions/{session_id}/queue/resume", session_id=session_id)
    await quiet(c, session_id)
    await c.call("POST /api/sessions/{session_id}/queue/clear", session_id=session_id)
    await shown(c, run_id, session_id)
    await c.call("GET /v1/runs", query=f"?session_id={session_id}")


async def cleared(c: Client, _model: Model) -> None:
    run_id, session_id = await c.start("play:echo")
    await c.seen(session_id, "approval.asked")
    for text in ("play:plain one", "play:plain two"):
        await c.start(text, session_id=session_id)
    await c.call("POST /api/sessions/{session_id}/queue/clear", session_id=session_id)
    await c.seen(session_id, "run.ended", 2)
    await c.start("play:plain three", session_id=session_id)
    await c.call("POST /v1/runs/{run_id}/stop", run_id=run_id)
    await c.ended(run_id)
    await c.call("GET /api/sessions/{session_id}/queue", session_id=session_id)
    await c.call("POST /api/sessions/{session_id}/queue/resume", session_id=session_id)
    await quiet(c, session_id)
    await shown(c, run_id, session_id)


async def quiet(c: Client, session_id: str) -> None:
    """Wait until the session has no open run."""
    async with asyncio.timeout(30):
        while True:
            runs = (await c.ask("GET", f"/v1/runs?session_id={session_id}")).json["data"]
            if all(run["status"] in {"completed", "failed", "cancelled", "interrupted"} for run in runs):
                return
            await asyncio.sleep(0.02)


async def retried(c: Client, _model: Model) -> None:
    run_id, session_id = await played(c, "plain")
    await played(c, "again", session_id=session_id)
    key = auth(Idempotency_Key="retry-1")
    made: dict[str, Any] = {}
    for _ in range(2):
        made = (await c.call("POST /v1/runs/{run_id}/retry", run_id=run_id, headers=key)).json
        await c.ended(made["run_id"])
    await c.call("POST /v1/runs/{run_id}/retry", {"session_id": "none"}, run_id=run_id)
    await shown(c, made["run_id"], session_id)
    await c.call("GET /v1/responses/{response_id}", response_id=run_id.replace("run_", "resp_"))


async def rewound(c: Client, _model: Model) -> None:
    run_id, session_id = await played(c, "plain")
    last = (await c.ask("GET", f"/api/sessions/{session_id}/messages")).json["last_seq"]
    later, _ = await played(c, "again", session_id=session_id)
    route = "POST /api/sessions/{session_id}/rewind"
    for to_seq in (-1, 99999, last):
        await c.call(route, {"to_seq": to_seq}, session_id=session_id)
    await shown(c, run_id, session_id)
    gone = later.replace("run_", "resp_")
    await c.call("GET /v1/responses/{response_id}", response_id=gone)
    await c.call("POST /v1/responses", {"input": "play:plain", "previous_response_id": gone})
    await shown(c, *await played(c, "again", session_id=session_id))


async def forked(c: Client, _model: Model) -> None:
    run_id, session_id = await played(c, "plain")
    await played(c, "again", session_id=session_id)
    route = "POST /api/sessions/{session_id}/fork"
    key = auth(Idempotency_Key="fork-1")
    for body in (None, None, {"title": "other"}):
        await c.call(route, body, session_id=session_id, headers=key)
    await c.call(route, {"at_seq": 5, "id": "fork-of-it", "title": "The fork"}, session_id=session_id)
    await c.call(route, {"id": "fork-of-it"}, session_id=session_id)
    await c.call(route, {"at_seq": 0}, session_id=session_id)
    await c.call(route, {"at_seq": 99999}, session_id=session_id)
    await c.call(route, {"session_id": "fork-two"}, session_id=session_id)
    await c.call("POST /v1/runs/{run_id}/retry", {"session_id": "fork-two"}, run_id=run_id)
    await quiet(c, "fork-two")
    for one in ("fork-of-it", "fork-two"):
        await shown(c, run_id, one)


PLAYED = (
    "plain",
    "think",
    "cut",
    "refused",
    "filtered",
    "empty",
    "read",
    "bad",
    "retry",
    "superseded",
    "cut_call",
)
RUN_SCENES: list[Scene] = [
    *(plain_scene(play) for play in PLAYED), cursors, live_streams, run_options, approval_once,
    approval_denied, approval_session,
    approval_always, approval_two, question, stopped, stopped_at_approval, steered,
    redirected, queued, cleared, retried, rewound, forked,
]  # fmt: skip
