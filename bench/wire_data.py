"""Data directories for bench/wire.py: what kill -9 leaves of open runs, and what a checkout makes of it."""

import asyncio
import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import aiohttp

from wire_model import Model, scripted_model
from wire_record import Book, Client, Names, configure, serving, temporary
from wire_scenes import quiet

PLACE = "workspace.txt"  # an approval is of an action in one folder, so the copy is given the same one
DONE = ("plain", "think", "cut", "refused", "read", "bad", "retry", "superseded")


async def write_data(checkout: Path, out: Path) -> None:
    """Finished sessions of many kinds, then runs that kill -9 cuts off, each somewhere else."""
    async with temporary() as folder:
        async with scripted_model() as model, aiohttp.ClientSession() as http:
            await asyncio.to_thread(configure, folder, model.url, keys=[], targets=["main"])
            async with serving(checkout, folder) as server:
                client = Client(server.url, http, folder, Book())
                await _finished(client)
                await _cut_off(client, model)
                server.process.kill()
                await server.process.wait()
        await asyncio.to_thread((folder / PLACE).write_text, str(folder / "work"))
        await asyncio.to_thread(shutil.copytree, folder, out, symlinks=True)
    print(out)


async def _post(client: Client, path: str, body: dict[str, Any] | None = None) -> Any:
    answer = await client.ask("POST", path, data=None if body is None else json.dumps(body).encode())
    assert answer.status < 300, (path, answer.body)
    return answer.json


async def _finished(client: Client) -> None:
    for play in DONE:
        made = await _post(client, "/v1/runs", {"input": f"play:{play}", "session_id": f"done-{play}"})
        await client.ended(made["run_id"])
    await _post(
        client, "/v1/runs", {"input": "play:again", "session_id": "done-plain", "metadata": {"a": "b"}}
    )
    await quiet(client, "done-plain")
    await _post(client, "/api/sessions/done-plain/fork", {"id": "done-fork", "title": "A fork"})
    last = (await client.ask("GET", "/api/sessions/done-think/messages")).json["last_seq"]
    await _post(client, "/v1/runs", {"input": "play:again", "session_id": "done-think"})
    await quiet(client, "done-think")
    await _post(client, "/api/sessions/done-think/rewind", {"to_seq": last})
    await client.ask("PATCH", "/api/sessions/done-cut", data=b'{"pinned":true,"title":"Pinned"}')
    await client.ask("PATCH", "/api/sessions/done-bad", data=b'{"archived":true,"read_seq":3}')
    await client.ask("PUT", "/api/sessions/done-plain/draft", data=b'{"text":"a draft"}')
    await client.ask("DELETE", "/api/sessions/done-refused")
    made = await _post(client, "/v1/runs", {"input": "play:grant", "session_id": "done-grant"})
    await client.seen("done-grant", "approval.asked")
    await _post(client, f"/v1/runs/{made['run_id']}/approval", {"choice": "session"})
    await client.ended(made["run_id"])


async def _cut_off(client: Client, model: Model) -> None:
    run = {"input": "play:gated", "session_id": "cut-midstream"}
    await _post(client, "/v1/runs", run)
    await model.reached("gated")
    await client.seen("cut-midstream", "text.delta")
    await _post(
        client, "/v1/runs", {"input": "play:gated", "session_id": "cut-interrupt", "on_restart": "interrupt"}
    )
    await model.reached("gated")
    await client.seen("cut-interrupt", "text.delta")
    await _post(client, "/v1/runs", {"input": "play:echo", "session_id": "cut-approval"})
    await client.seen("cut-approval", "approval.asked")
    await _post(client, "/v1/runs", {"input": "play:ask", "session_id": "cut-question"})
    await client.seen("cut-question", "question.asked")
    for text in ("play:gated", "play:plain queued", "play:again queued"):
        await _post(client, "/v1/runs", {"input": text, "session_id": "cut-queued"})
    await model.reached("gated")
    await client.seen("cut-queued", "text.delta")
    await client.seen("cut-queued", "run.queued", 3)
    for text in ("play:echo", "play:plain waits for the approval"):
        await _post(client, "/v1/runs", {"input": text, "session_id": "cut-behind"})
    await client.seen("cut-behind", "approval.asked")


async def opened(checkout: Path, data: Path) -> dict[str, Any]:
    """What the checkout shows of a copy: once what can go on is over, and once people have answered too."""
    async with temporary() as folder:
        await asyncio.to_thread(shutil.copytree, data, folder, symlinks=True, dirs_exist_ok=True)
        work = Path(await asyncio.to_thread((data / PLACE).read_text))
        async with scripted_model(is_open=True) as model, aiohttp.ClientSession() as http:
            await asyncio.to_thread(configure, folder, model.url, keys=[], targets=["main"], work=work)
            async with serving(checkout, folder) as server:
                client = Client(server.url, http, folder, Book())
                await _settled(client)
                before = await _summary(client)
                await _answer_all(client)
                await _settled(client)
                after = await _summary(client)
        await asyncio.to_thread(shutil.rmtree, work.parent)
        return {"opened": before, "answered": after}


async def _answer_all(client: Client) -> None:
    for ask in (await client.ask("GET", "/v1/approvals")).json["data"]:
        path = f"/v1/runs/{ask['run_id']}"
        if ask["kind"] == "approval":
            await _post(client, f"{path}/approval", {"choice": "once"})
        else:
            await _post(client, f"{path}/question/{ask['question_id']}", {"answer": "blue"})
        if ask["session_id"] != "cut-behind":
            await client.ended(ask["run_id"])
    await quiet(client, "cut-behind")


async def _settled(client: Client) -> None:
    """Wait until every open run waits for a person, or behind such a run."""
    async with asyncio.timeout(60):
        while True:
            runs = (await client.ask("GET", "/v1/runs?limit=200")).json["data"]
            waiting = {ask["session_id"] for ask in (await client.ask("GET", "/v1/approvals")).json["data"]}
            still = [run for run in runs if run["status"] in {"running", "stopping"}]
            behind = [run for run in runs if run["status"] == "queued" and run["session_id"] not in waiting]
            if not behind and all(run["session_id"] in waiting for run in still):
                return
            await asyncio.sleep(0.1)


async def _summary(client: Client) -> dict[str, Any]:
    listed = (await client.ask("GET", "/api/sessions?limit=200&all=true")).json["data"]
    archived = (await client.ask("GET", "/api/sessions?limit=200&all=true&archived=true")).json["data"]
    asks = (await client.ask("GET", "/v1/approvals")).json["data"]
    found = (await client.ask("GET", "/api/sessions?q=answer&limit=50")).json["data"]
    return {
        "listed": sorted(one["id"] for one in listed),
        "archived": sorted(one["id"] for one in archived),
        "found by 'answer'": sorted(one["id"] for one in found),
        "pending": sorted([ask["kind"], ask["session_id"]] for ask in asks),
        "rules": len((await client.ask("GET", "/api/approvals/rules?sessions=all")).json["data"]),
        "sessions": {one["id"]: await _session(client, one["id"]) for one in [*listed, *archived]},
    }


async def _session(client: Client, session_id: str) -> dict[str, Any]:
    names = Names(str(client.folder))

    async def get(path: str) -> Any:
        return names.value((await client.ask("GET", path)).json)

    own = f"/api/sessions/{session_id}"
    page, log = await get(f"{own}/messages?limit=500"), await get(f"{own}/events?limit=1000")
    ids = [
        run["run_id"] for run in (await client.ask("GET", f"/v1/runs?session_id={session_id}")).json["data"]
    ]
    runs = [await get(f"/v1/runs/{run_id}") for run_id in ids]
    return {
        "runs": [[run["status"], run.get("outcome"), run.get("output"), hashed(run)] for run in runs],
        "events": [event["type"] for event in log["events"]],
        "entries": [entry["kind"] for entry in page["data"]],
        "transcript": hashed(page["data"]),
        "page": hashed(page),
        "log": hashed(log),
        "session": hashed(await get(own)),
        "queue": hashed(await get(f"{own}/queue")),
        "draft": (await get(f"{own}/draft"))["text"],
        "export": hashed(await get(f"{own}/export")),
        "frames": [hashed(await _frames_of(client, run_id, names)) for run_id in ids],
    }


async def _frames_of(client: Client, run_id: str, names: Names) -> Any:
    """A run's events in hermes' words, as far as they are."""
    answer = await client.ask("GET", f"/v1/runs/{run_id}/events?cursor=0")
    return names.value(answer.json)


def hashed(value: Any) -> str:
    """The first digits of a hash of the normalised value, names in their order."""
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()[:16]
