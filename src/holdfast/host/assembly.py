"""Puts a server together from its settings: store, targets, tools, policy, and the application on top."""

import asyncio
import errno
import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import uvicorn

from holdfast.agent.deps import AgentDeps
from holdfast.agent.policy import AlwaysGrants, ConfiguredJudge
from holdfast.config.consistency import rules_of
from holdfast.config.secret_values import command_parts
from holdfast.config.settings import Settings
from holdfast.config.target_secrets import names_secret, secrets_of, without_scheme
from holdfast.host.fast_imports import uncollected
from holdfast.host.open_files import connections_to_allow
from holdfast.host.tooling import Tooling, open_tooling, own_places
from holdfast.interfaces.journal import Store
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.spool import Spool
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.models.attempt import CallDeps
from holdfast.models.call import ModelCalls
from holdfast.models.http import ModelHttp
from holdfast.models.prices import Prices
from holdfast.models.shared import Shared
from holdfast.redaction import Redactor
from holdfast.runner.supervisor import RunnerLimits
from holdfast.server.app import Edge, make_app
from holdfast.server.options import ApiKey, Limits, ServerOptions
from holdfast.server.page import BUILT, read_page
from holdfast.server.streams.stream import Streams
from holdfast.server.transport.connection import connection_with
from holdfast.server.transport.open_files import OpenFiles
from holdfast.targets import Target

_log = logging.getLogger(__name__)


async def assemble(
    stack: AsyncExitStack,
    settings: Settings,
    streams: Streams,
    *,
    keys: tuple[ApiKey, ...] | None,
    config: Path | None,
    goes_on: Literal["all", "asked"] = "all",
) -> Edge:
    """The application; the stack owns all that it needs. `config` is the file that counts, if any."""
    clock = SystemClock()
    await asyncio.to_thread(_make_spool_dir, settings)
    path = settings.data_dir / "holdfast.db"
    store = await SqliteStore.open_readable(path, durability=settings.server.durability)
    stack.push_async_callback(store.close)
    targets = settings.model_targets() or (await _demo(stack),)
    shared = Shared(store, clock)
    await shared.load()
    http = await stack.enter_async_context(ModelHttp())
    prices = Prices()
    stack.callback(asyncio.create_task(prices.load(targets), name="read prices").cancel)
    calls = ModelCalls(call_means(settings, http, shared=shared, store=store, prices=prices), targets)
    tooling = await stack.enter_async_context(open_tooling(settings, clock.now_ms, config=config))
    hidden = Redactor([*secrets_of(targets), *mcp_secrets_of(settings), *(key.secret for key in keys or ())])
    deps = await _deps(settings, store, calls=calls, tooling=tooling, hidden=hidden, config=config)
    return make_app(
        deps,
        streams,
        options=replace(
            _options(settings, shared, targets=targets, keys=keys),
            page=await asyncio.to_thread(read_page, BUILT),
        ),
        runner=RunnerLimits(
            settings.server.max_concurrent_runs, settings.server.on_restart, settings.server.drain_s, goes_on
        ),
    )


def call_means(
    settings: Settings, http: ModelHttp, *, shared: Shared, store: Store, prices: Prices
) -> CallDeps:
    """What model calls work with; where nobody waits for an answer, they try for longer."""
    unattended = settings.approvals.mode == "unattended"
    clock = SystemClock()
    return CallDeps(http, shared, store, clock, random.random, unattended=unattended, prices=prices)


def mcp_secrets_of(settings: Settings) -> Iterator[str]:
    """What MCP servers are given that looks like a key: a server may well repeat it in an error."""
    for server in settings.mcp_servers:
        named = [*server.env.items(), *server.headers.items(), *parse_qsl(urlsplit(server.url).query)]
        given = [str(value) for name, value in named if names_secret(name)]
        given += [secret for _, secret in command_parts(server.command)]
        for text in filter(None, map(str.strip, given)):
            yield text
            yield without_scheme(text)


def _make_spool_dir(settings: Settings) -> None:
    """A spool elsewhere is for a full disk, when it is too late to find that nothing can be kept there."""
    if not settings.server.spool_dir:
        return
    try:
        settings.spool_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=settings.spool_dir):
            pass
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            _log.warning("spool_dir %s is full: while the store is late, runs wait", settings.spool_dir)
            return
        raise OSError(f"cannot write to spool_dir {settings.spool_dir}: {error.strerror}") from error


async def _demo(stack: AsyncExitStack) -> Target:
    # Who has a model of their own does not wait for the import of this one.
    with uncollected():
        from holdfast.host.demo_model import demo_server, demo_target

    return demo_target((await stack.enter_async_context(demo_server())).base_url)


async def _deps(
    settings: Settings,
    store: Store,
    *,
    calls: ModelCalls,
    tooling: Tooling,
    hidden: Redactor,
    config: Path | None,
) -> AgentDeps:
    always = AlwaysGrants(store)
    await always.load()
    return AgentDeps(
        store=store,
        model=calls,
        clock=SystemClock(),
        judge=ConfiguredJudge(
            mode=settings.approvals.mode,
            rules=rules_of(settings.approvals),
            home=Path.home(),
            protected=own_places(settings),
            config=config,
            always=always,
            read=tooling.read_command,
            look=tooling.look,
        ),
        tools=tooling.registry,
        tools_that_change=tooling.from_mcp,
        workspace=settings.workspace,
        workspaces=tooling.workspaces,
        instructions=settings.agent.instructions,
        secrets=hidden,
        spool=Spool(settings.spool_dir),
        context_window=min(target.context_window for target in calls.targets),
        turns_max=settings.agent.turns_max,
        budget=settings.agent.run_budget(),
        answer_bytes_max=settings.agent.answer_bytes_max,
        asks_expire_s=settings.approvals.expires_s,
        on_expiry=settings.approvals.on_expiry,
    )


def _options(
    settings: Settings, shared: Shared, *, targets: tuple[Target, ...], keys: tuple[ApiKey, ...] | None
) -> ServerOptions:
    by_name = {target.name: target for target in targets}

    async def try_now(name: str) -> bool:
        return name in by_name and await shared.try_now(by_name[name])

    return ServerOptions(
        keys=keys,
        hosts=(settings.server.host, *settings.server.hosts),
        cors_origins=settings.server.cors_origins,
        limits=limits_of(settings),
        model=targets[0].model,
        targets=lambda: described(targets, shared),
        try_now=try_now,
        data_dir=settings.data_dir,
        open_files=OpenFiles(connections_to_allow(settings)),
    )


def http_server(app: Edge, settings: Settings) -> uvicorn.Config:
    """How the application is served: deadlines against slow senders, no log of its own."""
    return uvicorn.Config(
        app,
        http=connection_with(limits_of(settings), app.knows, files=app.open_files),
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
    )


def limits_of(settings: Settings) -> Limits:
    """How much of anything one client may send or hold."""
    limits = settings.server.limits
    return Limits(
        body_bytes_max=limits.body_bytes_max,
        json_depth_max=limits.json_depth_max,
        parts_max=limits.content_parts_max,
        headers_s=limits.header_s,
        body_gap_s=limits.body_s,
        streams_max=limits.subscribers_max,
        runs_waiting_max=limits.queued_runs_max,
        deltas_kept_s=settings.server.keep_deltas_days * 86_400.0,
    )


def described(targets: Sequence[Target], shared: Shared) -> Sequence[Mapping[str, Any]]:
    """The targets with their health, without their keys."""
    return [
        {
            "name": target.name,
            "model": target.model,
            "wire": target.wire,
            "context_window": target.context_window,
            "gated_ms": shared.gate_wait_ms(target),
            "silent_ms": shared.breaker_wait_ms(target),
        }
        for target in targets
    ]
