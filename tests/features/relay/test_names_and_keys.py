"""Which names relay, which keys may, what passes in the headers, and how loops are noticed."""

import asyncio
import gzip
import io
import json
from typing import Any

import anthropic
import pytest
from backports import zstd

from features.relay.relaying import (
    KEY,
    PATHS,
    USER,
    anthropic_client,
    body_for,
    keyed,
    relaying,
    target_on,
    text_by_package,
)
from holdfast.chaos import ChaosServer, Drop, Hang, Say, Status, overloaded
from holdfast.server.options import ApiKey
from holdfast.targets import Patience, RetryLimits, Wire
from side_by_side import on_each_wire, on_wires
from tables import for_each_row


@for_each_row("name", ["main", "main-model", "an-alias", "gpt-99-turbo"])
async def test_targets_aliases_and_patterns_are_relayed(name: str) -> None:
    models = {"an-alias": ["main"], "gpt-*": ["main"]}
    async with ChaosServer([Say("ok")]) as chaos, relaying(target_on(chaos, "chat"), models=models) as server:
        assert await text_by_package(server, "chat", model=name, stream=True) == "ok"
        body: Any = chaos.seen.requests[0].body
        assert body["model"] == "main-model"
        assert body["messages"] == USER  # no instructions and no tools: no agent has seen it


@for_each_row("name", ["holdfast", "holdfast/main", None])
@for_each_row("path", [PATHS["chat"], PATHS["responses"]])
async def test_an_agents_name_or_none_runs_the_agent(path: str, name: str | None) -> None:
    async with ChaosServer([Say("ok")]) as chaos, relaying(target_on(chaos, "chat")) as server:
        body = {"input": "hi", "messages": USER} | ({"model": name} if name else {})
        answer = await server.call("POST", path, body=body)
        assert answer.status == 200, answer.body
        assert "X-Hermes-Run-Id" in answer.headers


async def test_clients_of_hermes_get_the_agent_whatever_they_name() -> None:
    async with ChaosServer([Say("ok")]) as chaos, relaying(target_on(chaos, "chat")) as server:
        answer = await server.call(
            "POST", PATHS["chat"], body=body_for("chat"), headers={"X-Hermes-Session-Id": "s1"}
        )
        assert answer.headers["X-Hermes-Session-Id"] == "s1"


@on_wires("chat", "responses")
async def test_an_unknown_name_is_not_found_and_the_error_says_what_there_is(wire: Wire) -> None:
    async with ChaosServer() as chaos, relaying(target_on(chaos, wire)) as server:
        answer = await server.call("POST", PATHS[wire], body=body_for(wire, model="gpt-99"))
        assert (answer.status, answer.code) == (404, "model_not_found")
        assert "holdfast, holdfast/main, main, main-model" in answer.json["error"]["message"]


async def test_messages_relays_every_name_but_an_agents() -> None:
    """P12: the agent's tools and rules aren't bypassed in silence."""
    async with ChaosServer([Say("a")]) as chaos:
        targets = target_on(chaos, "chat"), target_on(chaos, "anthropic", name="claude")
        async with relaying(*targets) as server:
            body = body_for("anthropic", model="claude-opus-99")
            assert (await server.call("POST", PATHS["anthropic"], body=body)).status == 200
            for name in ("holdfast", "hermes-agent", "holdfast/main"):
                for path in (PATHS["anthropic"], "/v1/messages/count_tokens"):
                    body = body_for("anthropic", model=name)
                    answer = await server.call("POST", path, body=body)
                    assert (answer.status, answer.code) == (404, "route_not_served")
                    assert "use /v1/chat/completions or /v1/responses" in answer.json["error"]["message"]
        assert {request.body["model"] for request in chaos.seen.requests if request.body} == {"claude-model"}


async def test_models_are_listed_apart_and_in_the_shape_of_each_client() -> None:
    async with ChaosServer() as chaos, relaying(target_on(chaos, "chat"), models={"a": ["main"]}) as server:
        _, listed = await server.get("/v1/models?limit=1000")
        owners = {model["id"]: model["owned_by"] for model in listed["data"]}
        relayed = dict.fromkeys(("a", "main", "main-model"), "holdfast-relay")
        assert owners == dict.fromkeys(("holdfast", "holdfast/main"), "holdfast") | relayed
        async with anthropic_client(server) as client:
            models = [model.id async for model in client.models.list(limit=1000)]
            with pytest.raises(anthropic.NotFoundError):
                await client.models.retrieve("holdfast")
        assert models == list(relayed)


@on_each_wire
async def test_a_relay_key_relays_and_can_never_start_a_run(wire: Wire) -> None:
    """P11: whoever has such a key can't make an agent act."""
    async with ChaosServer([Say("ok")]) as chaos:
        setting = keyed(ApiKey("owner", "owner-key-0123456789"))
        async with relaying(target_on(chaos, wire), setting=setting) as server:
            owner = {"Authorization": "Bearer owner-key-0123456789"}
            made = await server.call(
                "POST", "/api/keys", body={"name": "r", "scopes": ["relay"]}, headers=owner
            )
            key = {"x-api-key": made.json["key"]}
            answer = await server.call("POST", PATHS[wire], body=body_for(wire), headers=key)
            assert answer.status == 200, answer.body
            for path in (PATHS["chat"], PATHS["responses"], "/v1/runs"):
                body = body_for("chat", model="holdfast", input="hi")
                refused = await server.call("POST", path, body=body, headers=key)
                assert (refused.status, refused.code) == (403, "missing_scope")
            for body, status in (
                (body_for("chat", model="mian"), 404),
                (b"{", 400),
                (b'{"messages": []}', 400),
            ):
                refused = await server.call("POST", PATHS["chat"], body=body, headers=key)
                assert refused.status == status, "the cause, and not a scope that would not help"
            session = {"X-Hermes-Session-Id": "s"} | key
            refused = await server.call("POST", PATHS["chat"], body=body_for("chat"), headers=session)
            assert refused.status == 403


@on_each_wire
async def test_a_chat_key_does_not_relay(wire: Wire) -> None:
    async with ChaosServer() as chaos:
        setting = keyed(ApiKey("owner", "owner-key-0123456789"))
        async with relaying(target_on(chaos, wire), setting=setting) as server:
            owner = {"Authorization": "Bearer owner-key-0123456789"}
            made = await server.call(
                "POST", "/api/keys", body={"name": "c", "scopes": ["chat"]}, headers=owner
            )
            key = {"Authorization": f"Bearer {made.json['key']}"}
            answer = await server.call("POST", PATHS[wire], body=body_for(wire), headers=key)
            assert answer.status == 403
            assert answer.json["error"]["code"] == "missing_scope"
        assert chaos.seen.requests == []


@on_each_wire
async def test_a_foreign_key_is_refused_and_goes_nowhere(wire: Wire) -> None:
    async with ChaosServer() as chaos:
        setting = keyed(ApiKey("owner", "owner-key-0123456789"))
        async with relaying(target_on(chaos, wire), setting=setting) as server:
            for headers in ({"Authorization": "Bearer sk-ant-foreign"}, {"x-api-key": "sk-ant-foreign"}):
                answer = await server.call("POST", PATHS[wire], body=body_for(wire), headers=headers)
                assert answer.status == 401
                assert answer.json["error"]["type"] == "authentication_error"
                assert (answer.json.get("type") == "error") == (wire == "anthropic")
        assert chaos.seen.requests == []


@on_each_wire
async def test_headers_pass_by_a_list_in_both_directions(wire: Wire) -> None:
    sent = {
        "anthropic-beta": "b1",
        "openai-beta": "b2",
        "x-codex-turn-state": "t",
        "session-id": "s",
        "originator": "codex_cli_rs",
        "User-Agent": "a-client/1",
        "x-stainless-retry-count": "0",
        "x-team": "red",
        "Authorization": "Bearer mine",
        "Cookie": "a=b",
        "X-Forwarded-For": "10.0.0.1",
        "X-Holdfast-Page": "p",
        "chatgpt-account-id": "acct",
    }
    back = {"x-request-id": "req_1", "x-ratelimit-remaining": "9", "set-cookie": "c=d", "x-internal": "no"}
    async with ChaosServer([Status(400, headers=back)]) as chaos:
        async with relaying(target_on(chaos, wire), headers=("X-Team", "Cookie")) as server:
            answer = await server.call("POST", PATHS[wire], body=body_for(wire, stream=True), headers=sent)
        seen = chaos.seen.requests[0].headers
        passed = ["anthropic-beta", "openai-beta", "x-codex-turn-state", "session-id", "originator", "x-team"]
        assert {name: seen.get(name) for name in passed} == {name: sent[name] for name in passed}
        assert seen["user-agent"] == "a-client/1"
        assert not {"cookie", "x-forwarded-for", "x-holdfast-page", "chatgpt-account-id"} & set(seen)
        assert seen.get("authorization" if wire != "anthropic" else "x-api-key", "").endswith(KEY)
        assert "mine" not in str(dict(seen))
        assert answer.headers["x-request-id"] == "req_1"
        assert answer.headers["x-ratelimit-remaining"] == "9"
        assert not {"Set-Cookie", "X-Internal"} & set(answer.headers)


async def test_a_request_that_comes_from_this_server_is_a_loop() -> None:
    async with ChaosServer([Say("ok")]) as chaos, relaying(target_on(chaos, "chat")) as server:
        await server.call("POST", PATHS["chat"], body=body_for("chat"))
        via = chaos.seen.requests[0].headers["via"]
        assert via.startswith("holdfast ")
        looped = await server.call("POST", PATHS["chat"], body=body_for("chat"), headers={"Via": via})
        assert (looped.status, looped.code) == (508, "relay_loop")
        other = {"Via": "1.1 proxy, holdfast 0000"}
        assert (await server.call("POST", PATHS["chat"], body=body_for("chat"), headers=other)).status != 508


@on_each_wire
@for_each_row(("encoding", "packed"), [("gzip", gzip.compress), ("zstd", zstd.compress)])
async def test_compressed_bodies_are_unpacked_within_the_limit(
    wire: Wire, encoding: str, packed: Any
) -> None:
    async with (
        ChaosServer([Say("ok")]) as chaos,
        relaying(target_on(chaos, wire), body_bytes_max=11_000_000) as server,
    ):
        head = {"Content-Encoding": encoding}
        body = json.dumps(body_for(wire)).encode()
        answer = await server.call("POST", PATHS[wire], body=packed(body), headers=head)
        assert answer.status == 200, answer.body
        bomb = packed(b'{"model":"main","x":"' + b" " * 12_000_000 + b'"}')
        refused = await server.call("POST", PATHS[wire], body=bomb, headers=head)
        assert refused.status == 413
        cut = await server.call("POST", PATHS[wire], body=packed(body)[:-6], headers=head)
        assert cut.status == 400


async def test_a_large_body_is_relayed_and_an_agents_limit_stays() -> None:
    async with ChaosServer([Say("ok")]) as chaos, relaying(target_on(chaos, "chat")) as server:
        big = [{"role": "user", "content": "x" * 11_000_000}]
        for model, status in ("main", 200), ("holdfast", 413):
            body = io.BytesIO(json.dumps(body_for("chat", model=model, messages=big)).encode())
            async with server.http.post(server.url + PATHS["chat"], data=body) as answer:
                assert answer.status == status


async def test_what_clients_ask_first_is_answered() -> None:
    setting = keyed(ApiKey("owner", "owner-key-0123456789"))
    async with ChaosServer() as chaos, relaying(target_on(chaos, "chat"), setting=setting) as server:
        assert (await server.call("HEAD", "/")).status == 200
        upgrade = {
            "Authorization": "Bearer owner-key-0123456789",
            "Connection": "Upgrade",
            "Upgrade": "websocket",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "eHh4eHh4eHh4eHh4eHh4eA==",
        }
        assert (await server.call("GET", "/v1/responses", headers=upgrade)).status == 426


async def test_an_alias_with_several_targets_falls_back() -> None:
    async with ChaosServer([overloaded()], after_last="repeat") as bad, ChaosServer([Say("from b")]) as good:
        targets = target_on(bad, "chat", name="a"), target_on(good, "chat", name="b")
        async with relaying(*targets, models={"both": ["a", "b"]}) as server:
            assert await text_by_package(server, "chat", model="both", stream=True) == "from b"
            one = await server.call("POST", PATHS["chat"], body=body_for("chat", model="a"))
            assert one.status == 503  # a target alone has no fallback
        assert len(good.seen.requests) == 1


BOUND: list[tuple[Wire, dict[str, Any]]] = [
    ("responses", {"previous_response_id": "resp_1"}),
    ("responses", {"input": [{"type": "reasoning", "summary": [], "encrypted_content": "e"}]}),
    ("responses", {"tools": [{"type": "web_search"}]}),
    ("anthropic", {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}),
    (
        "anthropic",
        {
            "messages": [
                *USER,
                {
                    "role": "assistant",
                    "content": [{"type": "thinking", "thinking": "", "signature": "s"}],
                },
                *USER,
            ]
        },
    ),
]


@for_each_row(("wire", "state"), BOUND)
async def test_what_belongs_to_one_account_never_leaves_it(wire: Wire, state: dict[str, Any]) -> None:
    async with ChaosServer([Drop()], after_last="repeat") as bad, ChaosServer([Say("b")]) as good:
        targets = target_on(bad, wire, name="a"), target_on(good, wire, name="b")
        async with relaying(*targets, models={"both": ["a", "b"]}) as server:
            answer = await server.call("POST", PATHS[wire], body=body_for(wire, model="both") | state)
        assert answer.status == 502
        assert good.seen.requests == []


@on_each_wire
async def test_an_alias_may_hedge_and_the_faster_target_answers(wire: Wire) -> None:
    limits = RetryLimits(hedge=True)
    async with ChaosServer([Hang()]) as slow, ChaosServer([Say("from b")]) as quick:
        patience = Patience(first_event_s=1.0)
        targets = (
            target_on(slow, wire, name="a", retry=limits, patience=patience),
            target_on(quick, wire, name="b"),
        )
        async with relaying(*targets, models={"both": ["a", "b"]}) as server:
            assert await text_by_package(server, wire, model="both", stream=True) == "from b"
        assert slow.seen.requests[0].connection.closed_s is not None


async def test_a_client_that_does_not_read_holds_its_provider_back() -> None:
    """P10: what it hasn't read doesn't pile up here."""
    script = [Say("x" * 40_000_000, chunk_chars=400_000)]
    async with ChaosServer(script) as chaos, relaying(target_on(chaos, "chat")) as server:
        body = body_for("chat", stream=True)
        async with server.http.post(server.url + PATHS["chat"], json=body, read_bufsize=1024) as answer:
            assert answer.status == 200
            sent = chaos.seen.requests[0].connection
            before = -1
            while sent.sent_bytes != before:  # until nobody takes any more
                before = sent.sent_bytes
                await asyncio.sleep(0.2)
            assert before < 30_000_000
            assert not chaos.seen.requests[0].finished
