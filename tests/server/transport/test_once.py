"""Idempotency keys: the same input sent twice under one key has one effect."""

import asyncio

from holdfast.chaos import ChaosServer, Gate, Say, Wait
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.server.options import ApiKey, ServerOptions
from serving import PATIENT, Setting, served, target_of
from stores import MemoryStore

KEY = {"Idempotency-Key": "k1"}
BODY = {"input": "hi"}


async def test_the_same_request_twice_has_one_effect_also_after_a_restart() -> None:
    """P2: accepted is kept, and a retry of the client finds it."""
    disk = MemoryDisk()
    async with ChaosServer([Say("x")], after_last="repeat") as chaos:
        async with served(target_of(chaos), store=MemoryStore(disk)) as server:
            first = await server.call("POST", "/v1/runs", body=BODY, headers=KEY)
            again = await server.call("POST", "/v1/runs", body=BODY, headers=KEY)
            assert (first.status, again.status) == (202, 202)
            assert first.json == again.json
            assert "Idempotency-Replayed" not in first.headers
            assert again.headers["Idempotency-Replayed"] == "true"
            await server.ended(first.json["run_id"])
        async with served(target_of(chaos), store=MemoryStore(disk)) as server:
            later = await server.call("POST", "/v1/runs", body=BODY, headers=KEY)
            assert later.json == first.json
    assert len(disk.runs) == 1


async def test_the_same_key_for_something_else_is_a_conflict() -> None:
    disk = MemoryDisk()
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos), store=MemoryStore(disk)) as server,
    ):
        await server.call("POST", "/v1/runs", body=BODY, headers=KEY)
        other = await server.call("POST", "/v1/runs", body={"input": "ho"}, headers=KEY)
        assert (other.status, other.code) == (409, "idempotency_key_conflict")
        bad = await server.call("POST", "/v1/runs", body=BODY, headers={"Idempotency-Key": "x" * 256})
        assert (bad.status, bad.json["error"]["param"]) == (400, "Idempotency-Key")
    assert len(disk.runs) == 1


async def test_requests_at_the_same_moment_have_one_effect() -> None:
    """P2: the journal decides, not a look before."""
    disk = MemoryDisk()
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos), store=MemoryStore(disk)) as server,
    ):
        calls = [server.call("POST", "/v1/runs", body=BODY, headers=KEY) for _ in range(8)]
        answers = await asyncio.gather(*calls)
    assert {answer.json["run_id"] for answer in answers} == set(disk.runs)
    assert len(disk.runs) == 1


async def test_each_api_key_has_its_own_keys() -> None:
    """P11: what one person sent under a key is not shown to another."""
    keys = (ApiKey("a", "key-of-a"), ApiKey("b", "key-of-b"))
    setting = Setting(options=ServerOptions(keys=keys))
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos), setting=setting) as server,
    ):
        runs = [
            (
                await server.call(
                    "POST", "/v1/runs", body=BODY, headers=KEY | {"Authorization": f"Bearer {key.secret}"}
                )
            ).json["run_id"]
            for key in keys
        ]
    assert len(set(runs)) == 2


async def test_a_retry_while_busy_gets_the_first_answer_and_a_steer_is_said_once() -> None:
    """P2: that the session is busy now, with that very run, is no reason to refuse its retry."""
    gate = Gate()
    async with (
        ChaosServer([Wait(gate), Say("one")], [Say("two")]) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        body = {"input": "a", "session_id": "s", "when_busy": "reject"}
        first = await server.call("POST", "/v1/runs", body=body, headers=KEY)
        await gate.reached()
        again = await server.call("POST", "/v1/runs", body=body, headers=KEY)
        assert (again.status, again.json) == (202, first.json)
        path = f"/v1/runs/{first.json['run_id']}/steer"
        steer = {"Idempotency-Key": "k2"}
        said = [await server.call("POST", path, body={"message": "m"}, headers=steer) for _ in range(2)]
        assert said[0].json == said[1].json
        gate.open()
        frames = await server.all_frames(first.json["run_id"], view="native")
    assert [frame.data["type"] for frame in frames].count("message.accepted") == 1


async def test_a_replay_says_so_on_every_route_that_waits_for_the_answer() -> None:
    """P2: whole and streamed, the same run."""
    say = [{"role": "user", "content": "hi"}]
    requests = (
        ("/v1/chat/completions", {"model": "holdfast", "messages": say}),
        ("/v1/chat/completions", {"model": "holdfast", "messages": say, "stream": True}),
        ("/v1/responses", {"model": "holdfast", "input": "hi"}),
        ("/v1/responses", {"model": "holdfast", "input": "hi", "stream": True}),
        ("/api/sessions/s/chat", {"message": "hi"}),
        ("/api/sessions/s/chat/stream", {"message": "hi"}),
    )
    async with ChaosServer([Say("x")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        for at, (path, body) in enumerate(requests):
            headers = {"Idempotency-Key": f"k{at}"}
            first = await server.call("POST", path, body=body, headers=headers)
            again = await server.call("POST", path, body=body, headers=headers)
            assert (first.status, again.status) == (200, 200), path
            assert "Idempotency-Replayed" not in first.headers, path
            assert again.headers["Idempotency-Replayed"] == "true", path
            assert again.headers["X-Hermes-Run-Id"] == first.headers["X-Hermes-Run-Id"], path


async def test_a_message_that_its_client_sends_twice_under_its_own_id_is_one_run() -> None:
    """P2: at once, later, and with `when_busy` = reject; in another session it is another message."""
    disk = MemoryDisk()
    gate = Gate()
    body = {"input": "hi", "session_id": "s", "client_id": "c1", "when_busy": "reject"}
    async with (
        ChaosServer([Wait(gate), Say("x")], [Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT), store=MemoryStore(disk)) as server,
    ):
        told = await asyncio.gather(*[server.call("POST", "/v1/runs", body=body) for _ in range(4)])
        await gate.reached()
        told.append(await server.call("POST", "/v1/runs", body=body))
        assert {answer.status for answer in told} == {202}
        assert len({answer.json["run_id"] for answer in told}) == 1
        assert sum("Idempotency-Replayed" not in answer.headers for answer in told) == 1
        other = await server.call("POST", "/v1/runs", body=body | {"input": "ho"})
        assert (other.status, other.code) == (409, "idempotency_key_conflict")
        steer = f"/v1/runs/{told[0].json['run_id']}/steer"
        said = [await server.call("POST", steer, body={"message": "left", "client_id": "c2"}) for _ in "12"]
        assert said[0].json == said[1].json
        elsewhere = await server.call("POST", "/v1/runs", body=body | {"session_id": "s2"})
        assert elsewhere.json["run_id"] != told[0].json["run_id"]
        gate.open()
        for answer in (told[0], elsewhere):
            await server.ended(answer.json["run_id"])
    assert len(disk.runs) == 2
