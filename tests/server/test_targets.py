"""The targets over HTTP: how they are, and one tiny call to see whether one works."""

import asyncio
from typing import Any

from msgspec.structs import replace

from holdfast.chaos import ChaosServer, Gate, Say, Status, Wait, closed_port, rate_limited_s
from holdfast.server.options import ApiKey, ServerOptions
from serving import Served, Setting, served, target_of

SECRET = "sk-secret-of-the-owner"  # noqa: S105  # the key of a server that lives for a test
HEADER = "header-value-nobody-may-see"


async def shown(server: Served, nth: int = 0) -> dict[str, Any]:
    return (await server.get("/api/targets"))[1]["data"][nth]


async def test_a_target_that_asked_to_wait_is_tried_by_hand_and_then_answers_everyone() -> None:
    """P10: the provider is asked once, and what it answers counts for all calls."""
    scripts = ([Say("first")], [rate_limited_s(3600)], [Say("ok")], [Say("hello")])
    async with ChaosServer(*scripts) as chaos, served(target_of(chaos)) as server:
        assert (await shown(server))["health"] == "ok"
        assert "last_answer_at" not in await shown(server)
        await server.ended(await server.start())
        fresh = await shown(server)
        assert fresh["last_answer_at"] > 0
        assert fresh["patience"] == {
            "connect_s": 5,
            "first_event_s": 20,
            "first_event_why": "configured",
            "gap_s": 20,
        }
        assert [(one["input_tokens_min"], one["calls"], one["waits_s"]) for one in fresh["learned"]] == [
            (0, 1, 20)
        ]
        waiting = await server.start()
        async for frame in server.frames(waiting, view="native"):
            if frame.data["type"] == "call.gated":
                break
        gated = await shown(server)
        assert (gated["health"], gated["waiting_calls"]) == ("waiting", 1)
        assert gated["gated_ms"] > 3_500_000
        assert "Rate limit reached" in gated["gate_why"]
        assert gated["last_failure"]["kind"] == "rate_limited"
        status, tried = await server.post("/api/targets/main/try")
        assert (status, tried["works"], "failure" in tried) == (200, True, False)
        assert tried["ms"] >= tried["first_ms"] >= 0
        assert (await server.ended(waiting))["output"] == "hello"
        after = await shown(server)
        assert (after["health"], after["gated_ms"], "waiting_calls" in after) == ("ok", 0, False)
        assert chaos.seen.requests_seen == 4


async def test_a_target_is_tried_once_at_a_time() -> None:
    gate = Gate()
    async with ChaosServer([Wait(gate), Say("ok")]) as chaos, served(target_of(chaos)) as server:
        first = asyncio.create_task(server.post("/api/targets/main/try"))
        await gate.reached()
        assert (await shown(server))["active_calls"] == 1
        second = await server.call("POST", "/api/targets/main/try")
        assert (second.status, second.code) == (409, "already_trying")
        gate.open()
        assert (await first)[1]["works"] is True
        assert "active_calls" not in await shown(server)
        metrics = (await server.call("GET", "/metrics")).body.decode()
        assert 'holdfast_model_attempts_total{close_reason="done",target="main"} 1.0' in metrics
        assert chaos.seen.requests_seen == 1


async def test_a_failed_try_says_what_to_do_and_shows_no_secret() -> None:
    """P11: neither the key nor a header is in any response."""
    said = Status(401, message=f"bad key sk-test-of-a-key with {HEADER}", code="invalid_api_key")
    with closed_port() as port:
        async with ChaosServer([said]) as chaos:
            refused = replace(target_of(chaos), headers={"X-Team": HEADER})
            url = f"http://127.0.0.1:{port}/v1"
            away = replace(target_of(chaos, name="away"), base_url=url, api_key="")
            async with served(refused, away) as server:
                answers = [await server.call("POST", f"/api/targets/{name}/try") for name in ("main", "away")]
                listed = await server.call("GET", "/api/targets")
    failures = [answer.json["failure"] for answer in answers]
    assert [one["kind"] for one in failures] == ["auth", "connect_failed"]
    assert "check the API key of target main" in failures[0]["text"]
    assert "check the network and the base_url of away" in failures[1]["text"]
    assert [answer.json["works"] for answer in answers] == [False, False]
    assert [one["health"] for one in listed.json["data"]] == ["failing", "unreachable"]
    assert all(one["last_failure"]["at"] > 0 for one in listed.json["data"])
    sent = b"".join(answer.body for answer in (*answers, listed)).decode()
    for secret in ("sk-test-of-a-key", HEADER):
        assert secret not in sent


async def test_only_an_admin_may_try_a_target() -> None:
    owner = {"Authorization": f"Bearer {SECRET}"}
    locked = Setting(options=ServerOptions(keys=(ApiKey("owner", SECRET),)))
    async with ChaosServer([Say("ok")]) as chaos, served(target_of(chaos), setting=locked) as server:
        _, made = await server.post("/api/keys", {"name": "chats", "scopes": ["chat"]}, **owner)
        guest = {"Authorization": f"Bearer {made['key']}"}
        assert (await server.get("/api/targets", **guest))[0] == 200
        assert (await server.post("/api/targets/main/try", **guest))[0] == 403
        assert chaos.seen.requests_seen == 0
        missing = await server.call("POST", "/api/targets/nobody/try", headers=owner)
        assert (missing.status, missing.code) == (404, "target_not_found")
        assert (await server.post("/api/targets/main/try", **owner))[1]["works"] is True
