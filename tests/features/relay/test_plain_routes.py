"""Embeddings and plain completions: passed on to targets that can have them; all others say no."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import openai
import pytest
from aiohttp import web

from features.relay.relaying import KEY, keyed, openai_client, relaying, target_on
from holdfast.chaos import ChaosServer
from holdfast.config.server import KeySettings
from holdfast.server.options import ApiKey, ServerOptions
from holdfast.targets import Target, Wire
from serving import Setting
from side_by_side import on_wires
from tables import for_each_row

VECTORS = {
    "object": "list",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}],
    "model": "e-5",
    "usage": {"prompt_tokens": 7, "total_tokens": 7},
}


def chunk(text: str, finish: str | None = None) -> bytes:
    choice = {"index": 0, "text": text, "finish_reason": finish, "logprobs": None}
    said = {"id": "c", "object": "text_completion", "created": 1, "model": "e-5", "choices": [choice]}
    return b"data: %b\n\n" % json.dumps(said).encode()


@dataclass
class Provider:
    """A provider with both routes; it fails as often as it is told to."""

    failures: int = 0
    asked: list[tuple[str, Any, str]] = field(default_factory=list[tuple[str, Any, str]])
    port: int = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.asked.append((request.path, body, request.headers.get("Authorization", "")))
        if self.failures:
            self.failures -= 1
            return web.json_response({"error": {"message": "oops"}}, status=500)
        if request.path == "/v1/embeddings":
            return web.json_response(VECTORS)
        if not body.get("stream"):
            return web.Response(body=chunk("whole", "stop")[6:], content_type="application/json")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for piece in (chunk("on"), chunk("ce"), chunk("", "stop"), b"data: [DONE]\n\n"):
            await response.write(piece)
        return response

    def target(self, wire: Wire = "chat") -> Target:
        return Target(
            name="main", wire=wire, base_url=f"http://127.0.0.1:{self.port}/v1", model="e-5", api_key=KEY
        )


@asynccontextmanager
async def provider(failures: int = 0) -> AsyncGenerator[Provider]:
    made = Provider(failures)
    app = web.Application()
    app.router.add_post("/v1/embeddings", made.answer)
    app.router.add_post("/v1/completions", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        made.port = runner.addresses[0][1]
        yield made
    finally:
        await runner.cleanup()


@on_wires("chat", "responses")
async def test_embeddings_are_passed_on_to_any_target_of_openais_protocols(wire: Wire) -> None:
    async with provider(failures=1) as upstream, relaying(upstream.target(wire)) as server:
        async with openai_client(server) as client:
            told = await client.embeddings.create(model="main", input="hi", encoding_format="float")
        assert told.data[0].embedding == [0.5, 0.25]
        path, body, key = upstream.asked[-1]
        assert (path, body["model"], body["input"], key) == ("/v1/embeddings", "e-5", "hi", f"Bearer {KEY}")
        assert len(upstream.asked) == 2, "a failed attempt is made again"


async def test_plain_completions_are_passed_on_whole_and_streamed() -> None:
    async with provider() as upstream, relaying(upstream.target()) as server, openai_client(server) as client:
        whole = await client.completions.create(model="main", prompt="say")
        assert whole.choices[0].text == "whole"
        stream = await client.completions.create(model="main", prompt="say", stream=True)
        assert "".join([one.choices[0].text async for one in stream]) == "once"


async def test_what_embeddings_cost_is_counted_for_their_key() -> None:
    setting = keyed(ApiKey("laptop", "laptop-key-0123456789"))
    key = {"Authorization": "Bearer laptop-key-0123456789"}
    async with provider() as upstream, relaying(upstream.target(), setting=setting) as server:
        await server.call("POST", "/v1/embeddings", body={"model": "main", "input": "hi"}, headers=key)
        text = (await server.call("GET", "/metrics", headers=key)).body.decode()
        assert 'holdfast_relay_tokens_total{direction="input",key="laptop",target="main"} 7.0' in text


@for_each_row("keep", ["usage", "all"])
async def test_embeddings_and_plain_completions_are_in_the_usage_and_use_up_a_budget(keep: str) -> None:
    """A provider that reports no usage is estimated: both completions here say nothing about it."""
    setting = Setting(
        options=ServerOptions(key_settings={"*": KeySettings(name="laptop", budget_tokens_per_day=25)})
    )
    async with provider() as upstream, relaying(upstream.target(), setting=setting, keep=keep) as server:
        asked = {"model": "main", "input": "hi"}
        assert (await server.post("/v1/embeddings", asked))[0] == 200
        _, told = await server.get("/api/usage?by=target")
        assert (told["totals"]["relayed_calls"], told["totals"]["input_tokens"]) == (1, 7)
        for stream in (False, True):
            body = {"model": "main", "prompt": "say it once more, please", "stream": stream}
            assert (await server.call("POST", "/v1/completions", body=body)).status == 200
        _, told = await server.get("/api/usage?by=target")
        assert (told["totals"]["relayed_calls"], told["totals"]["output_tokens"]) == (3, 2)
        assert (await server.post("/v1/embeddings", asked))[0] == 429
        assert len(upstream.asked) == 3


async def test_who_hasnt_got_the_route_says_so() -> None:
    async with (
        ChaosServer() as chaos,
        relaying(target_on(chaos, "anthropic", name="claude"), target_on(chaos, "chat")) as server,
    ):
        for path in ("/v1/embeddings", "/v1/completions"):
            agent = await server.call("POST", path, body={"model": "holdfast", "input": "hi"})
            assert (agent.status, agent.code) == (404, "route_not_served")
            assert "is an agent" in agent.json["error"]["message"]
            claude = await server.call("POST", path, body={"model": "claude", "input": "hi"})
            assert (claude.status, claude.code) == (404, "route_not_served")
            unknown = await server.call("POST", path, body={"model": "nobody", "input": "hi"})
            assert (unknown.status, unknown.code) == (404, "model_not_found")
            # The provider hasn't got it, and its own words come back.
            missing = await server.call("POST", path, body={"model": "main", "input": "hi"})
            assert missing.status == 404
            assert "is not here" in missing.body.decode()
        async with openai_client(server) as client:
            with pytest.raises(openai.NotFoundError):
                await client.embeddings.create(model="holdfast", input="hi")
