"""Requests that real clients sent, shortened: they pass as they are, and translated to other wires."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from features.relay.relaying import KEY, PATHS, relaying, target_on
from holdfast.chaos import ChaosServer, Say
from holdfast.targets import Target, Wire
from server.recorded import RECORDED, Recorded
from tables import for_each_row

PASS = (
    "anthropic-version",
    "anthropic-beta",
    "openai-beta",
    "x-codex-",
    "session-id",
    "thread-id",
    "originator",
    "user-agent",
)
PROVIDER_SAID = b'{"error": {"message": "seen"}}'


@dataclass(slots=True)
class RawUpstream:
    """A provider that keeps the bytes of each request, and refuses it, which passes as it is."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list[bytes])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    paths: list[str] = field(default_factory=list[str])

    async def refuse(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.paths.append(request.path_qs)
        return web.Response(status=400, body=PROVIDER_SAID, content_type="application/json")

    def target(self, wire: Wire) -> Target:
        url = self.url if wire == "anthropic" else f"{self.url}/v1"
        return Target(name=wire, wire=wire, base_url=url, model=f"{wire}-model", api_key=KEY)


@asynccontextmanager
async def raw_upstream() -> AsyncGenerator[RawUpstream]:
    upstream = RawUpstream()
    app = web.Application(client_max_size=10_000_000)
    app.router.add_route("*", "/{rest:.*}", upstream.refuse)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        upstream.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield upstream
    finally:
        await runner.cleanup()


def everything() -> list[Recorded]:
    return [request for requests in RECORDED.values() for request in requests]


async def test_every_real_request_goes_up_byte_for_byte_but_for_the_name_of_its_model() -> None:
    """And with it the headers that a provider may need, and no credentials."""
    mine = {"x-api-key": "a-key-of-the-client", "cookie": "a=b", "chatgpt-account-id": "somebody"}
    async with raw_upstream() as upstream:
        targets = [upstream.target(wire) for wire in PATHS]
        async with relaying(*targets) as server:
            for asked in everything():
                body = asked.bytes_for(asked.wire)
                answer = await server.call("POST", asked.path, body=body, headers={**asked.headers, **mine})
                assert (answer.status, answer.body) == (400, PROVIDER_SAID)
                assert upstream.bodies[-1] == asked.bytes_for(f"{asked.wire}-model")
                assert upstream.paths[-1] == asked.path
                arrived = upstream.headers[-1]
                passed = {name: value for name, value in asked.headers.items() if name.startswith(PASS)}
                assert passed.items() <= arrived.items()
                assert not (set(mine) - {"x-api-key"}) & set(arrived)
                assert "a-key-of-the-client" not in str(arrived)
    assert len(upstream.bodies) == len(everything())


TRANSLATED: list[tuple[str, Wire]] = [
    ("claude", "chat"),
    ("claude", "responses"),
    ("claude-unstreamed", "chat"),
    ("codex", "chat"),
    ("codex", "anthropic"),
    ("opencode", "anthropic"),
    ("opencode", "responses"),
    ("aider", "anthropic"),
    ("aider", "responses"),
    *((name, "anthropic") for name in RECORDED if name.endswith(("-chat", "-responses"))),
]


@for_each_row(("name", "target"), TRANSLATED)
async def test_real_requests_are_translated(name: str, target: Wire) -> None:
    """Whatever they hold, a choice of tool included, reaches a target on another wire."""
    async with (
        ChaosServer([Say('{"city":"translated"}')], after_last="repeat") as chaos,
        relaying(target_on(chaos, target)) as server,
    ):
        for asked in RECORDED[name]:
            body = asked.bytes_for("main")
            answer = await server.call("POST", asked.path, body=body, headers=asked.headers)
            assert answer.status == 200, (asked.body, answer.body)
            assert b"translated" in answer.body
