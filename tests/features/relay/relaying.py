"""What the tests of the relay share: targets on each wire, clients, and requests in each protocol."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import openai
from msgspec.structs import replace

from holdfast.chaos import ChaosServer
from holdfast.features.relay.routes import RelayOptions
from holdfast.server.options import ServerOptions
from holdfast.targets import Patience, RetryLimits, Target, Wire
from serving import PATIENT, Served, Setting, served

WIRES: tuple[Wire, ...] = ("chat", "responses", "anthropic")
PATHS: Mapping[Wire, str] = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
}
KEY = "sk-upstream-secret-0123456789"
USER = [{"role": "user", "content": "hi"}]
SHORT = Patience(first_event_s=0.25, gap_s=20)


def target_on(chaos: ChaosServer, wire: Wire, *, name: str = "main", **fields: Any) -> Target:
    """The bad model server as a target on this wire, which is asked again quickly."""
    known: dict[str, Any] = {
        "base_url": chaos.url if wire == "anthropic" else chaos.base_url,
        "model": f"{name}-model",
        "api_key": KEY,
        "patience": PATIENT,
        "retry": RetryLimits(backoff_base_s=0.01, backoff_max_s=0.02),
    }
    return Target(name=name, wire=wire, **(known | fields))


def body_for(wire: Wire, *, model: str = "main", stream: bool = False, **fields: Any) -> dict[str, Any]:
    """A small request."""
    asked: dict[str, Any] = {"model": model}
    asked |= {"input": "hi"} if wire == "responses" else {"messages": USER}
    if wire == "anthropic":
        asked["max_tokens"] = 100
    return asked | ({"stream": True} if stream else {}) | fields


@asynccontextmanager
async def relaying(*targets: Target, setting: Setting | None = None, **relay: Any) -> AsyncGenerator[Served]:
    """A server that relays to these targets."""
    setting = setting or Setting()
    given = RelayOptions(**relay)
    limits = replace(setting.options.limits, relayed_bytes_max=given.body_bytes_max)
    options = replace(setting.options, limits=limits, features={"relay": given})
    async with served(*targets, setting=replace(setting, options=options)) as server:
        yield server


def keyed(*keys: Any) -> Setting:
    """A server that these keys open."""
    return Setting(options=ServerOptions(keys=keys))


def openai_client(server: Served) -> openai.AsyncOpenAI:
    """The official package, which doesn't try again by itself."""
    return openai.AsyncOpenAI(
        base_url=f"{server.url}/v1",
        api_key="any-key-at-all",
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(verify=False),  # reading all certificates takes long
    )


def anthropic_client(server: Served) -> anthropic.AsyncAnthropic:
    """The official package, which doesn't try again by itself."""
    return anthropic.AsyncAnthropic(
        base_url=server.url,
        api_key="any-key-at-all",
        max_retries=0,
        http_client=anthropic.DefaultAsyncHttpxClient(verify=False),  # reading all certificates takes long
    )


async def text_by_package(server: Served, wire: Wire, *, model: str = "main", stream: bool) -> str:
    """The answer's text, as a user of the official package gets it."""
    if wire == "anthropic":
        async with anthropic_client(server) as client:
            return await _anthropic_text(client, model=model, stream=stream)
    async with openai_client(server) as client:
        if wire == "chat":
            return await _chat_text(client, model=model, stream=stream)
        return await _responses_text(client, model=model, stream=stream)


async def _anthropic_text(client: Any, *, model: str, stream: bool) -> str:
    asked: Any = {"model": model, "max_tokens": 100, "messages": USER}
    if not stream:
        whole = await client.messages.create(**asked)
        return "".join(block.text for block in whole.content if block.type == "text")
    async with client.messages.stream(**asked) as events:
        return await events.get_final_text()


async def _chat_text(client: openai.AsyncOpenAI, *, model: str, stream: bool) -> str:
    messages: Any = USER
    if not stream:
        whole = await client.chat.completions.create(model=model, messages=messages)
        return whole.choices[0].message.content or ""
    text = ""
    async for chunk in await client.chat.completions.create(model=model, messages=messages, stream=True):
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    return text


async def _responses_text(client: openai.AsyncOpenAI, *, model: str, stream: bool) -> str:
    if not stream:
        return (await client.responses.create(model=model, input="hi")).output_text
    async with client.responses.stream(model=model, input="hi") as events:
        return (await events.get_final_response()).output_text
