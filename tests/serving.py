"""A real server on a real socket, with the bad model server behind it, inside one test's event loop."""

import asyncio
import dataclasses
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import aiohttp
from msgspec import Struct, field
from msgspec.structs import replace
from starlette.types import ASGIApp

from holdfast.agent.deps import AgentDeps
from holdfast.agent.policy import Judge
from holdfast.chaos import ChaosServer
from holdfast.host.http_server import application, serving
from holdfast.host.runtime import Parts, open_runtime
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.feature import SessionTools
from holdfast.interfaces.journal import Store
from holdfast.interfaces.system_clock import SystemClock
from holdfast.interfaces.tool import Tool
from holdfast.policy.verdicts import Allow, NeedsApproval, Verdict
from holdfast.redaction import NO_SECRETS, Redactor
from holdfast.runner.supervisor import RunnerLimits
from holdfast.server.app import ServerWork
from holdfast.server.options import Limits, ServerOptions
from holdfast.server.streams.stream import Streams
from holdfast.targets import Patience, RetryLimits, Target
from holdfast.tools.ask import AskUser
from holdfast.tools.registry import Registry
from holdfast.values import Action, ApprovalMode, Choice, GrantRule, Width
from stores import MemoryStore

# Whoever wants a silence to be cut says how soon: a busy machine must not cut what is only slow.
PATIENT = Patience(first_event_s=20, gap_s=20)


def target_of(chaos: ChaosServer, *, name: str = "main", patience: Patience = PATIENT) -> Target:
    """The bad model server as a target that is asked again quickly."""
    return Target(
        name=name,
        wire="chat",
        base_url=chaos.base_url,
        model="m",
        api_key="sk-test-of-a-key",
        patience=patience,
        retry=RetryLimits(backoff_base_s=0.01, backoff_max_s=0.02),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class AsksAbout:
    """A judge that asks about some tools and allows the rest; each grant is for the tool as a whole."""

    names: frozenset[str] = frozenset()
    once_only: str = ""  # no rule is stored for an action whose summary contains this
    grants: bool = True  # whether a person can say more than once or deny
    always: dict[str, GrantRule] = dataclasses.field(default_factory=dict[str, GrantRule])
    mode: ApprovalMode = "ask"  # without effect

    def in_mode(self, mode: Literal["", ApprovalMode]) -> "AsksAbout":
        return dataclasses.replace(self, mode=mode) if mode else self

    def applied_mode(self) -> ApprovalMode:
        return self.mode

    def verdict(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> Verdict:
        del workspace
        granted = any(grant.tool == action.tool for grant in (*grants, *self.always.values()))
        return (
            NeedsApproval(("it has an effect",)) if action.tool in self.names and not granted else Allow("")
        )

    def for_a_person(self, findings: tuple[str, ...]) -> NeedsApproval:
        return NeedsApproval(findings)

    def choices(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> tuple[Choice, ...]:
        del grants, workspace
        if not self.grants or (self.once_only and self.once_only in action.summary):
            return ("once", "deny")
        return ("once", "session", "always", "deny")

    def rule(
        self, action: Action, grants: Sequence[GrantRule], *, workspace: Path, width: Width = "exact"
    ) -> GrantRule | None:
        del grants, workspace
        return GrantRule(tool=action.tool) if self.grants and width == "exact" else None

    async def remember(self, grant_id: str, rule: GrantRule) -> None:
        self.always[grant_id] = rule

    def standing(self) -> Mapping[str, GrantRule]:
        return dict(self.always)

    async def forget(self, grant_id: str) -> bool:
        return self.always.pop(grant_id, None) is not None


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """One SSE frame as a client reads it; id 0 is none."""

    id: int
    data: dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code in the error envelope, whose form is checked on the way."""
        error = self.json["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        return error["code"]


class Served(Struct, frozen=True):
    """A running server, as its clients see it."""

    url: str
    http: aiohttp.ClientSession
    streams: Streams

    async def call(
        self, method: str, path: str, *, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Any request, with JSON or bytes."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        async with self.http.request(method, self.url + path, data=data, headers=headers) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def post(self, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, Any]]:
        """POST JSON, or bytes as they are."""
        answer = await self.call("POST", path, body=body, headers=headers)
        return answer.status, answer.json

    async def get(self, path: str, **headers: str) -> tuple[int, dict[str, Any]]:
        """GET JSON."""
        answer = await self.call("GET", path, headers=headers)
        return answer.status, answer.json

    async def signed_in(self, *, host: str = "", **body: str) -> dict[str, str]:
        """What a page sends once it has signed in, with a `key` or a `token`: its cookie, and its secret."""
        headers = {"Host": host} if host else {}
        answer = await self.call("POST", "/api/sign-in", body=body, headers=headers)
        assert answer.status == 200, answer.body
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        return {"Cookie": cookie, "X-Holdfast-Page": answer.json["page"]} | headers

    async def start(self, text: str = "hi", **fields: Any) -> str:
        """Start a run and return its id."""
        status, answer = await self.post("/v1/runs", {"input": text, **fields})
        assert status == 202, answer
        return answer["run_id"]

    async def frames(
        self, run_id: str, *, view: str = "hermes", after: int | None = None
    ) -> AsyncIterator[Frame]:
        """The run's frames until the stream ends."""
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        async for frame in self.follow(f"/v1/runs/{run_id}/events?view={view}", headers=headers):
            yield frame

    async def follow(self, path: str, *, headers: Mapping[str, str] | None = None) -> AsyncGenerator[Frame]:
        """The frames of any stream."""
        async with self.http.get(self.url + path, headers=headers) as answer:
            assert answer.status in {200, 204}, await answer.text()
            async for frame in frames_in(answer.content):
                yield frame

    async def all_frames(self, run_id: str, *, view: str = "hermes", after: int | None = None) -> list[Frame]:
        """All of them but the ephemeral ones."""
        return [frame async for frame in self.frames(run_id, view=view, after=after) if frame.id]

    async def until(self, run_id: str, name: str) -> Frame:
        """The first frame of this name."""
        frames = self.frames(run_id)
        async for frame in frames:
            if frame.data["event"] == name:
                await frames.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
                return frame
        raise AssertionError(f"{name} never came")

    async def until_streams(self, count: int) -> None:
        """Wait until so many event streams are open."""
        while len(self.streams) != count:  # noqa: ASYNC110  # nothing says so, and each look costs nothing
            await asyncio.sleep(0)

    async def ended(self, run_id: str) -> dict[str, Any]:
        """Wait for the run's end and show it."""
        await self.all_frames(run_id)
        _, shown = await self.get(f"/v1/runs/{run_id}")
        return shown

    async def ended_unread(self, run_id: str) -> dict[str, Any]:
        """The same without being a reader of the run, whom it might be kept for."""
        _, shown = await self.get(f"/v1/runs/{run_id}")
        frames = self.follow(f"/api/sessions/{shown['session_id']}/events")
        async for frame in frames:
            if frame.data["type"] == "run.ended" and frame.data["run_id"] == run_id:
                await frames.aclose()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
                return (await self.get(f"/v1/runs/{run_id}"))[1]
        raise AssertionError(f"{run_id} never ended")


async def frames_in(lines: aiohttp.StreamReader) -> AsyncIterator[Frame]:
    """The SSE frames of a body."""
    seq = 0
    async for line in lines:
        if line.startswith(b"id: "):
            seq = int(line[4:])
        elif line.startswith(b"data: ") and line != b"data: [DONE]\n":
            yield Frame(seq, json.loads(line[6:]))
            seq = 0


def text_of(frames: Sequence[Frame]) -> str:
    """The text that a hermes client has seen."""
    return "".join(frame.data["delta"] for frame in frames if frame.data["event"] == "message.delta")


def said_to(chaos: ChaosServer, *, nth: int) -> list[str]:
    """What the model was told in its nth request, without instructions."""
    body: Any = chaos.seen.requests[nth - 1].body
    return [message["content"] for message in body["messages"] if message["role"] != "system"]


class Setting(Struct, frozen=True, kw_only=True):
    """How a server of a test differs from the usual one."""

    store: Store | None = None
    options: ServerOptions = field(default_factory=ServerOptions)
    tools: tuple[Tool, ...] = ()
    judge: Judge = field(default_factory=AsksAbout)
    runner: RunnerLimits | None = None
    clock: Clock = field(default_factory=SystemClock)
    context_window: int = 200_000
    windows: Mapping[str, int] = field(default_factory=dict[str, int])
    asks_expire_s: float = 86_400.0
    secrets: Redactor = NO_SECRETS
    title_model: str | None = None
    features: Mapping[str, Any] = field(default_factory=dict[str, Any])  # what each keeps open
    workspace: Path = Path("/nowhere")
    session_tools: Mapping[str, SessionTools] = field(default_factory=dict[str, SessionTools])
    # What the server does besides answering.
    also: Mapping[str, ServerWork] = field(default_factory=dict[str, ServerWork])
    prompt: str = ""
    opened: Callable[[], Awaitable[bool]] | None = None  # waits for the tools; None: they are open
    around: Callable[[ASGIApp, Store], ASGIApp] = lambda app, _: app  # what stands before the server


def limited(**limits: Any) -> Setting:
    """A server with other limits."""
    return Setting(options=ServerOptions(limits=Limits(**limits)))


def parts_of(
    *targets: Target,
    store: Store,
    tools: Sequence[Tool] = (),
    registry: Registry | None = None,
    **fields: Any,
) -> Parts:
    """What every world of a test is built from; `fields` are the fields of AgentDeps that differ."""
    registry = registry or Registry()
    registry.put("own", [*tools, AskUser()])
    usual = {"workspace": Path("/nowhere"), "judge": AsksAbout(), "tools": registry}
    return Parts(targets=targets, store=store, agent=partial(AgentDeps, **usual | fields), jitter=lambda: 0.5)


@asynccontextmanager
async def served(
    *targets: Target, store: Store | None = None, setting: Setting | None = None
) -> AsyncGenerator[Served]:
    """A server on a free port; leaving it is an orderly shutdown."""
    setting = setting or Setting()
    async with AsyncExitStack() as stack:
        kept = store or setting.store or MemoryStore(redactor=setting.secrets)
        if store is None and setting.store is None:
            stack.push_async_callback(kept.close)
        parts = parts_of(
            *targets,
            store=kept,
            tools=setting.tools,
            judge=setting.judge,
            context_window=setting.context_window,
            windows=setting.windows,
            asks_expire_s=setting.asks_expire_s,
            secrets=setting.secrets,
            title_model=setting.title_model,
            features=setting.features,
            workspace=setting.workspace,
            prompt=setting.prompt,
            session_tools=setting.session_tools,
            opened=setting.opened,
        )
        runtime = await stack.enter_async_context(open_runtime(replace(parts, clock=setting.clock)))
        app = application(runtime, setting.options, setting.runner, also=setting.also)
        # The client outlives the server: what it still reads ends in order.
        # The server closes idle connections after 5 s, and a request must not meet that.
        connector = aiohttp.TCPConnector(keepalive_timeout=2)
        client = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        url = await stack.enter_async_context(serving(app, outermost=setting.around(app.asgi, kept)))
        yield Served(url, client, app.streams)
