"""Many clients at one session: each is told the truth about who has it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast import events as e
from holdfast.chaos import ChaosServer, Gate, Say, Wait
from holdfast.interfaces.journal import Store, StoreLocked
from holdfast.runner.inbox import QUEUE_MAX
from serving import PATIENT, Served, limited, said_to, served, target_of
from stores import MemoryStore, SqliteStore
from tables import for_each_row

SENDERS = 20


async def store_of(kind: str, folder: Path) -> Store:
    return MemoryStore() if kind == "memory" else await SqliteStore.open(folder / "holdfast.db")


async def answers(server: Served, count: int, path: str, body: dict[str, Any]) -> list[tuple[int, str]]:
    """What so many get who ask the same at once: status, and code or run id."""
    told = await asyncio.gather(*[server.post(path, body) for _ in range(count)])
    return [
        (status, one["error"]["code"] if "error" in one else one.get("run_id", "")) for status, one in told
    ]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_of_many_who_send_at_once_and_will_not_wait_exactly_one_gets_the_session(
    kind: str, tmp_path: Path
) -> None:
    """P2, P12: the others are told so, in a new session and in a known one, and leave nothing behind."""
    store, gate = await store_of(kind, tmp_path), Gate()
    script = [Wait(gate), Say("mine")]
    async with (
        ChaosServer(script, after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT), store=store) as server,
    ):
        for _ in range(2):
            body = {"input": "hi", "session_id": "s", "when_busy": "reject"}
            told = sorted(await answers(server, SENDERS, "/v1/runs", body))
            assert [status for status, _ in told] == [202] + [409] * (SENDERS - 1)
            assert {code for status, code in told if status == 409} == {"session_busy"}
            gate.open()
            assert (await server.ended(told[0][1]))["output"] == "mine"
        _, listed = await server.get("/v1/runs?session_id=s")
        assert len(listed["data"]) == 2
        _, found = await server.get("/api/sessions/s")
        assert found["message_count"] == 2
    await store.close()


async def test_of_many_who_retry_at_once_one_run_comes(tmp_path: Path) -> None:
    """P2: a second click does not run it twice."""
    store = await store_of("sqlite", tmp_path)
    async with (
        ChaosServer([Say("ok")], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT), store=store) as server,
    ):
        run_id = await server.start("hi", session_id="s")
        await server.ended(run_id)
        told = sorted(await answers(server, 5, f"/v1/runs/{run_id}/retry", {}))
        assert [status for status, _ in told] == [202, 409, 409, 409, 409]
        await server.ended(told[0][1])
    await store.close()


async def test_a_queue_takes_what_it_says_however_many_send_at_once() -> None:
    """P12: one over is told so and keeps its text."""
    gate = Gate()
    async with (
        ChaosServer([Wait(gate), Say("on")], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        run_id = await server.start("hi", session_id="s")
        await gate.reached()
        told = await answers(server, QUEUE_MAX + 5, "/v1/runs", {"input": "more", "session_id": "s"})
        assert sorted(told)[-5:] == [(429, "queue_full")] * 5
        steer = f"/v1/runs/{run_id}/steer"
        assert {status for status, _ in await answers(server, QUEUE_MAX, steer, {"message": "left"})} == {200}
        assert await answers(server, 1, steer, {"message": "left"}) == [(429, "queue_full")]
        _, queue = await server.get("/api/sessions/s/queue")
        assert sum(one["state"] == "queued" for one in queue["data"]) == QUEUE_MAX
        await server.post("/api/sessions/s/queue/clear")
        await server.post(f"/v1/runs/{run_id}/stop")
        await server.ended(run_id)


class EndsFirst(MemoryStore):
    """A store that keeps what is said to a run waiting until that run has ended."""

    async def append(self, session_id: str, inputs: Sequence[e.Input], **rest: Any) -> Any:
        first = inputs[0]
        if isinstance(first, e.MessageAccepted) and first.mode == "steer":
            self.steering.set()
            async for records in self.follow(session_id):
                if any(isinstance(record.event, e.RunEnded) for record in records):
                    break
        return await super().append(session_id, inputs, **rest)

    def __init__(self) -> None:
        super().__init__()
        self.steering = asyncio.Event()


async def test_what_is_typed_while_the_run_ends_starts_the_next_one() -> None:
    """P2: who sends to a session, and not to a run, is not told that the run is over."""
    store, gate = EndsFirst(), Gate()
    async with (
        ChaosServer([Wait(gate), Say("one")], [Say("two")]) as chaos,
        served(target_of(chaos, patience=PATIENT), store=store) as server,
    ):
        await server.start("hi", session_id="s")
        await gate.reached()
        sending = asyncio.create_task(server.start("and?", session_id="s", when_busy="steer"))
        await store.steering.wait()
        gate.open()
        assert (await server.ended(await sending))["output"] == "two"


class TakesNothingBack(MemoryStore):
    """A store that is locked whenever a message is to be removed by itself."""

    async def append(self, session_id: str, inputs: Sequence[e.Input], **rest: Any) -> Any:
        if isinstance(inputs[0], e.MessageRemoved):
            raise StoreLocked("a backup has the file")
        return await super().append(session_id, inputs, **rest)


async def test_what_is_moved_from_the_queue_to_the_run_is_never_in_both() -> None:
    """P2: it is said and taken out of the queue in one go, or neither; twice is refused."""
    gate = Gate()
    async with (
        ChaosServer([Wait(gate), Say("one")], [Say("two")]) as chaos,
        served(target_of(chaos, patience=PATIENT), store=TakesNothingBack()) as server,
    ):
        run_id = await server.start("hi", session_id="s")
        await gate.reached()
        await server.start("left", session_id="s")
        path = (
            f"/api/sessions/s/queue/{(await server.get('/api/sessions/s/queue'))[1]['data'][0]['message_id']}"
        )
        told = await asyncio.gather(*[server.call("PATCH", path, body={"steer": True}) for _ in range(3)])
        assert min(answer.status for answer in told) == 200
        _, queue = await server.get("/api/sessions/s/queue")
        assert [(one["text"], one["state"]) for one in queue["data"]] == [("left", "steering")]
        gate.open()
        assert (await server.ended(run_id))["output"] in {"one\n\ntwo", "two"}


async def test_a_place_beyond_any_queue_is_its_end_and_the_log_stays_readable(tmp_path: Path) -> None:
    """P12: no number that a client sends keeps a session from being read, now or after a restart."""
    gate = Gate()
    async with ChaosServer([Wait(gate), Say("one")], after_last="repeat") as chaos:
        store = await store_of("sqlite", tmp_path)
        async with served(target_of(chaos, patience=PATIENT), store=store) as server:
            run_id = await server.start("hi", session_id="s")
            await gate.reached()
            for text in ("a", "b"):
                await server.start(text, session_id="s")
            _, queue = await server.get("/api/sessions/s/queue")
            path = f"/api/sessions/s/queue/{queue['data'][0]['message_id']}"
            moved = await server.call("PATCH", path, body={"position": 2**63})
            assert moved.status == 200
            assert [one["text"] for one in moved.json["data"]] == ["b", "a"]
        await store.close()
        store = await store_of("sqlite", tmp_path)
        async with served(target_of(chaos, patience=PATIENT), store=store) as server:
            assert (await server.get("/api/sessions/s/messages"))[0] == 200
            assert (await server.post(f"/v1/runs/{run_id}/stop"))[0] == 200
            gate.open()
        await store.close()


def said(*texts: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]


@for_each_row(
    ("path", "first", "next_"),
    [
        ("chat/completions", {"messages": said("a", "b", "c")}, {"messages": said("d")}),
        (
            "responses",
            {"input": said("a", "b", "c"), "conversation": "s"},
            {"input": "d", "conversation": "s"},
        ),
    ],
)
async def test_who_brings_a_history_is_not_queued_behind_an_answer_that_the_history_would_lack(
    path: str, first: dict[str, Any], next_: dict[str, Any]
) -> None:
    """P4: the message is refused while that answer is under way, and the same one sent twice is still one."""
    gate, key = Gate(), {"Idempotency-Key": "k"}
    async with (
        ChaosServer([Wait(gate), Say("x")], [Say("y")]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=limited(disconnect_grace_s=0.0)) as server,
    ):
        url, headers = f"{server.url}/v1/{path}", {"X-Hermes-Session-Id": "s"}
        streamed: dict[str, Any] = {"json": {**first, "stream": True}, "headers": headers | key}
        async with server.http.post(url, **streamed) as one, server.http.post(url, **streamed) as same:
            await gate.reached()
            early = await server.call("POST", f"/v1/{path}", body=next_, headers=headers)
            assert (early.status, early.code, early.headers["Retry-After"]) == (409, "session_busy", "2")
            assert (one.status, same.status) == (200, 200)
            gate.open()
            await one.read()
        assert (await server.call("POST", f"/v1/{path}", body=next_, headers=headers)).status == 200
        assert said_to(chaos, nth=2) == ["a", "b", "c", "x", "d"]
        assert len(chaos.seen.requests) == 2


async def test_who_brings_a_history_and_asks_anew_after_hanging_up_is_answered() -> None:
    """P3, P4: the run that nobody reads any more is ended, and what it said by then is known."""
    gate = Gate()
    messages, headers = said("a", "b", "c"), {"X-Hermes-Session-Id": "s"}
    async with (
        ChaosServer([Say("half "), Wait(gate)], [Say("y")]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=limited(disconnect_grace_s=0.5)) as server,
    ):
        url = f"{server.url}/v1/chat/completions"
        async with server.http.post(url, json={"messages": messages, "stream": True}, headers=headers):
            await gate.reached()
        body = {"messages": said("d")}
        again = await server.call("POST", "/v1/chat/completions", body=body, headers=headers)
        assert again.status == 200
        assert said_to(chaos, nth=2)[:3] == ["a", "b", "c"]
        assert said_to(chaos, nth=2)[-1].endswith("d")
