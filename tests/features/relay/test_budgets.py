"""The budgets of keys that relay: what is charged for calls that end early, and numbers that can't be."""

import asyncio
import json
from typing import Any

from features.relay.relaying import PATHS, SHORT, WIRES, body_for, relaying, target_on
from holdfast.chaos import Begin, ChaosServer, Gate, Hang, Headers, Say, Wait, overloaded
from holdfast.config.server import KeySettings
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.model_events import TokensUsed
from holdfast.models.exchange import AttemptMeter
from holdfast.server.options import ApiKey, ServerOptions
from holdfast.targets import Wire
from serving import Served, Setting
from side_by_side import on_each_wire
from stores import MemoryStore
from tables import for_each_row

AS_LAPTOP = {"authorization": "Bearer hf-laptop-key-0123456789"}
LONG = "x" * 4000  # a thousand tokens


def limited(**limits: Any) -> Setting:
    keys = (ApiKey("laptop", "hf-laptop-key-0123456789"),)
    options = ServerOptions(keys=keys, key_settings={"*": KeySettings(name="laptop", **limits)})
    return Setting(options=options, store=MemoryStore(MemoryDisk()))


async def used(server: Served) -> dict[str, int]:
    answer = await server.call("GET", "/api/usage", headers=AS_LAPTOP)
    return answer.json["totals"]


EARLY: dict[str, list[Any]] = {
    "before the head": [Hang()],
    "after the head": [Headers(), Hang()],
    "after the opening": [Begin(), Hang()],
}
CASES: list[tuple[Wire, str, str]] = [
    *((wire, at, "usage") for wire in WIRES for at in EARLY),
    ("chat", "before the head", "all"),
]


@for_each_row(("wire", "at", "keep"), CASES)
async def test_a_call_that_its_client_aborts_before_any_content_is_charged(
    wire: Wire, at: str, keep: str
) -> None:
    """P10: the provider has the request, so the key pays for it and its next call is refused."""
    async with (
        ChaosServer(EARLY[at]) as chaos,
        relaying(target_on(chaos, wire), setting=limited(budget_tokens_per_day=5), keep=keep) as server,
    ):
        body = body_for(wire, stream=True)
        asking = asyncio.create_task(server.call("POST", PATHS[wire], body=body, headers=AS_LAPTOP))
        await chaos.seen.until_request(1)
        asking.cancel()
        await asyncio.wait([asking])
        await chaos.seen.until_closed(1)
        while not (told := await used(server))["relayed_calls"]:
            pass
        assert told["input_tokens"] >= 5
        answer = await server.call("POST", PATHS[wire], body=body, headers=AS_LAPTOP)
        assert answer.status == 429
        assert len(chaos.seen.requests) == 1


@on_each_wire
async def test_text_that_came_before_an_abort_is_charged(wire: Wire) -> None:
    """An Anthropic stream reports its input first and its output last."""
    gate = Gate()
    script = [Say(LONG), Wait(gate)]
    async with (
        ChaosServer(script) as chaos,
        relaying(target_on(chaos, wire), setting=limited(budget_tokens_per_day=10_000)) as server,
    ):
        url = server.url + PATHS[wire]
        async with server.http.post(url, json=body_for(wire, stream=True), headers=AS_LAPTOP) as answer:
            await gate.reached()
            assert await answer.content.readany()
        await chaos.seen.until_closed(1)
        while not (told := await used(server))["relayed_calls"]:
            pass
        assert 900 < told["output_tokens"] < 1100


async def test_each_attempt_that_was_sent_is_charged_and_a_refused_one_is_not() -> None:
    script = [overloaded()], [Hang()], [Say("ok")]
    async with ChaosServer(*script) as chaos:
        target = target_on(chaos, "chat", patience=SHORT)
        async with relaying(target, setting=limited(budget_tokens_per_day=100_000)) as server:
            body = body_for("chat", stream=True, messages=[{"role": "user", "content": LONG}])
            answer = await server.call("POST", PATHS["chat"], body=body, headers=AS_LAPTOP)
            assert answer.status == 200, answer.body
            assert 2000 <= (await used(server))["input_tokens"] < 2200


def test_an_attempt_that_never_connected_is_free() -> None:
    meter = AttemptMeter(1000)
    assert meter.total() is None
    meter.is_sent = True
    assert meter.total() == TokensUsed(input_tokens=1000, is_estimate=True)
    meter.chars, meter.answers = 400, 3
    assert meter.total() == TokensUsed(input_tokens=1000, output_tokens=300, is_estimate=True)
    meter.reported = TokensUsed(input_tokens=900, output_tokens=1)
    assert meter.total() == TokensUsed(input_tokens=900, output_tokens=300, is_estimate=True)
    meter.is_whole = True
    assert meter.total() == meter.reported
    meter.reported = TokensUsed(input_tokens=900)
    assert meter.total() == TokensUsed(input_tokens=900, output_tokens=300, is_estimate=True)
    meter.reported = TokensUsed(output_tokens=1)
    assert meter.total() == TokensUsed(input_tokens=1000, output_tokens=1, is_estimate=True)


IMPOSSIBLE: dict[str, list[Any]] = {
    "max_tokens": [-1_000_000, -2, 10**30, 1.5, "100", True, [1]],
    "max_completion_tokens": [-1_000_000],
    "max_output_tokens": [-1, 0.5],
    "n": [0, -5, 10**12, 1.5, "2"],
    "best_of": [-5],
    "temperature": [-0.1, 1e300, "hot", True],
    "top_p": [-1, 1.01],
    "top_k": [-2],
    "seed": [1.5, 10**40],
    "presence_penalty": [-1e9],
    "dimensions": [0],
}


@for_each_row("path", [*PATHS.values(), "/v1/completions", "/v1/messages/count_tokens"])
async def test_an_impossible_number_is_refused_before_anything_goes_up(path: str) -> None:
    wires: dict[str, Wire] = {"/v1/responses": "responses", "/v1/messages": "anthropic"}
    wire = wires.get(path.removesuffix("/count_tokens"), "chat")
    async with ChaosServer([Say("ok")]) as chaos, relaying(target_on(chaos, wire)) as server:
        cases = [(name, value) for name, values in IMPOSSIBLE.items() for value in values]
        for name, value in cases:
            answer = await server.call("POST", path, body=body_for(wire) | {name: value})
            assert (answer.status, answer.json["error"]["param"]) == (400, name), (name, value, answer.body)
        for outer, name in ("thinking", "budget_tokens"), ("reasoning", "max_tokens"):
            answer = await server.call("POST", path, body=body_for(wire) | {outer: {name: -1}})
            assert (answer.status, answer.json["error"]["param"]) == (400, f"{outer}.{name}")
        for token in ("NaN", "Infinity", "-Infinity", "1e999"):
            raw = json.dumps(body_for(wire))[:-1] + f', "temperature": {token}}}'
            assert (await server.call("POST", path, body=raw.encode())).status == 400
        assert not chaos.seen.requests
        if path not in PATHS.values():
            return
        usual = {"temperature": 1, "top_p": 0.5, "max_tokens": 100.0, "n": 1, "seed": None}
        assert (await server.call("POST", path, body=body_for(wire) | usual)).status == 200


@for_each_row("fields", [{"max_tokens": -1}, {"max_tokens": 1000, "n": 3}, {"best_of": 2}])
async def test_no_request_cancels_the_reservation_of_another(fields: dict[str, Any]) -> None:
    """P10: two calls of a thousand tokens fill a budget of 1,500, however a third is written."""
    gate = Gate()
    async with (
        ChaosServer([Wait(gate), Say("ok")], after_last="repeat") as chaos,
        relaying(target_on(chaos, "chat"), setting=limited(budget_tokens_per_day=1500)) as server,
    ):
        calls = [
            asyncio.create_task(
                server.call("POST", PATHS["chat"], body=body_for("chat") | fields, headers=AS_LAPTOP)
            )
            for _ in range(12)
        ]
        done, _ = await asyncio.wait(calls, return_when="FIRST_COMPLETED")
        while len(done) + len(chaos.seen.requests) < len(calls):
            done, _ = await asyncio.wait(calls, return_when="FIRST_COMPLETED")
        gate.open()
        statuses = [(await call).status for call in calls]
        assert statuses.count(200) == (2 if fields == {"max_tokens": -1} else 1)
