"""Numbers of the relay: tokens before a call, and what each key used after it."""

from features.relay.relaying import PATHS, USER, anthropic_client, body_for, keyed, relaying, target_on
from holdfast.chaos import ChaosServer, Say, Status, server_error
from holdfast.server.options import ApiKey, Limits, ServerOptions
from serving import Setting

OWNER = ApiKey("owner", "owner-key-0123456789")
COUNT = "/v1/messages/count_tokens"


async def test_tokens_are_counted_by_the_provider() -> None:
    async with ChaosServer() as chaos, relaying(target_on(chaos, "anthropic")) as server:
        # The bad model server has no such route, and its own words come back.
        answer = await server.call("POST", COUNT, body={"model": "main", "messages": USER})
        assert answer.status == 404
        assert "/v1/messages/count_tokens is not here" in answer.json["error"]["message"]


async def test_tokens_are_estimated_on_another_wire_and_the_answer_says_so() -> None:
    async with ChaosServer() as chaos, relaying(target_on(chaos, "chat")) as server:
        answer = await server.call("POST", COUNT, body={"model": "main", "messages": USER})
        assert answer.json["input_tokens"] > 0
        assert answer.headers["X-Holdfast-Estimate"] == "true"
        async with anthropic_client(server) as client:
            messages = [{"role": "user", "content": "word " * 4000}]
            counted = await client.messages.count_tokens(model="main", messages=messages)  # pyright: ignore[reportArgumentType]
            assert counted.input_tokens > 4000


async def test_metrics_say_what_each_key_used_at_each_target() -> None:
    async with (
        ChaosServer([Say("ok")], [server_error()], [Say("ok")], [Status(400, body="{}")]) as chaos,
        relaying(
            target_on(chaos, "chat"), setting=keyed(ApiKey("laptop", "laptop-key-0123456789"))
        ) as server,
    ):
        key = {"Authorization": "Bearer laptop-key-0123456789"}
        for status in (200, 200, 400):
            answer = await server.call("POST", PATHS["chat"], body=body_for("chat"), headers=key)
            assert answer.status == status
        text = (await server.call("GET", "/metrics", headers=key)).body.decode()
        assert 'holdfast_relay_calls_total{key="laptop",outcome="completed",target="main"} 2.0' in text
        assert 'holdfast_relay_calls_total{key="laptop",outcome="failed",target="main"} 1.0' in text
        assert 'holdfast_relay_tokens_total{direction="input",key="laptop",target="main"} 22.0' in text
        assert 'holdfast_model_failures_total{kind="server_error",target="main"} 1.0' in text


async def test_a_large_request_can_be_counted_like_it_can_be_relayed() -> None:
    setting = Setting(options=ServerOptions(limits=Limits(body_bytes_max=1000)))
    async with ChaosServer() as chaos, relaying(target_on(chaos, "chat"), setting=setting) as server:
        messages = [{"role": "user", "content": "word " * 4000}]
        answer = await server.call("POST", COUNT, body={"model": "main", "messages": messages})
        assert answer.status == 200
        assert answer.json["input_tokens"] > 4000


async def test_a_key_without_the_scope_is_told_how_to_get_one_that_has_it() -> None:
    async with ChaosServer() as chaos, relaying(target_on(chaos, "chat"), setting=keyed(OWNER)) as server:
        body = {"name": "old", "scopes": ["chat"]}
        made = await server.call("POST", "/api/keys", body=body, headers={"x-api-key": OWNER.secret})
        old = {"x-api-key": made.json["key"]}
        refused = await server.call("POST", PATHS["chat"], body=body_for("chat"), headers=old)
        assert refused.status == 403
        said = refused.json["error"]["message"]
        assert "Keys created before Holdfast had a relay don't have it" in said
        assert "`holdfast keys add NAME --scope relay`" in said
