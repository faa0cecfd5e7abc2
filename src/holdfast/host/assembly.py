"""Builds a server from its settings: store, targets, tools and policy become the parts of a runtime."""

import asyncio
import errno
import logging
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Literal

from msgspec.structs import asdict

from holdfast.agent.deps import AgentDeps
from holdfast.agent.policy import AlwaysGrants, ConfiguredJudge
from holdfast.agent.prompt import BASE, GUIDE, Machine
from holdfast.api.server import SandboxShown
from holdfast.catalog import FEATURES, SHIPPED
from holdfast.config.consistency import rules_of
from holdfast.config.files import own_config_home
from holdfast.config.server import CONVERSATIONS
from holdfast.config.settings import Settings
from holdfast.host.fast_imports import gc_paused
from holdfast.host.http_server import Application, application
from holdfast.host.known_secrets import known_secrets
from holdfast.host.open_files import connections_to_allow
from holdfast.host.opening import Opening
from holdfast.host.runtime import AgentFactory, Parts, Runtime, SessionJobs, open_runtime
from holdfast.host.stores import open_store, placement_of
from holdfast.host.tools import (
    HostTools,
    OpenedTools,
    SessionProcesses,
    open_tools,
    own_folders,
)
from holdfast.interfaces.feature import Feature, FeatureContext
from holdfast.interfaces.model import Authorize
from holdfast.interfaces.tool import Tool
from holdfast.journal.retrying_append import AWAY, once_readable
from holdfast.journal.shared_notes import SharedNotes
from holdfast.journal.spool import Spool
from holdfast.models.call_deps import Prices
from holdfast.redaction import Redactor
from holdfast.runner.supervisor import RunnerLimits
from holdfast.server.app import ServerWork
from holdfast.server.deps import RouteDeps
from holdfast.server.options import ApiKey, Limits, ServerOptions
from holdfast.server.page import BUILT, read_page
from holdfast.server.transport.open_files import OpenFiles
from holdfast.targets import Target, blind, patching, windows_of
from holdfast.values import EVERY_SOURCE

if TYPE_CHECKING:
    from holdfast.sandbox.profile import NetworkAccess
    from holdfast.sandbox.sandbox import Sandbox
    from holdfast.tools.shell.lease_watchdog import LeaseWatchdog

_log = logging.getLogger(__name__)
DAY_S = 86_400.0
NO_LIMIT_S = 365 * DAY_S  # what a setting of 0 seconds means


@asynccontextmanager
async def open_application(
    settings: Settings,
    *,
    keys: tuple[ApiKey, ...] | None,
    config: Path | None,
    resume_runs: Literal["all", "asked"] = "all",
    sandbox: "Callable[[], Sandbox] | None" = None,
    secrets: Redactor | None = None,
) -> AsyncGenerator[Application]:
    """The server for these settings; leaving it closes the store. `config` is the file they come from.

    `sandbox` waits for a test of the sandbox that began earlier. `secrets` learns those of
    these settings, too.
    """
    server = settings.server
    limits = RunnerLimits(server.max_concurrent_runs, server.on_restart, server.drain_s, resume_runs)
    opened = open_parts(settings, keys=keys, config=config, sandbox=sandbox, secrets=secrets)
    async with opened as parts, open_runtime(parts) as runtime:
        page, working = await asyncio.to_thread(lambda: (read_page(BUILT), _working()))
        also = _works(settings, runtime, working if resume_runs == "all" else ())
        options = _options(settings, parts, keys=keys, page=page)
        yield application(
            runtime,
            options,
            limits,
            also=also,
            opening=parts.opening,
        )


def _working() -> Sequence[Feature]:
    """Return the features that have work beside the server. Blocks."""
    home, features = own_config_home(), [one for one in SHIPPED if one.name in FEATURES]
    found = [FEATURES[one.name] for one in features if not one.folder or (home / one.folder).is_dir()]
    return [one for one in found if one.work]


def _works(settings: Settings, runtime: Runtime, features: Sequence[Feature]) -> Mapping[str, ServerWork]:
    """The work of these features. Each is imported in a thread when it begins."""

    async def work(feature: Feature, deps: RouteDeps) -> None:
        await asyncio.to_thread(import_module, feature.module(feature.work))
        await feature.part(feature.work)(deps, settings, runtime)

    return {one.name: partial(work, one) for one in features if one.is_used(settings)}


@asynccontextmanager
async def open_parts(
    settings: Settings,
    *,
    keys: tuple[ApiKey, ...] | None,
    config: Path | None,
    sandbox: "Callable[[], Sandbox] | None" = None,
    secrets: Redactor | None = None,
) -> AsyncGenerator[Parts]:
    """The parts that the settings ask for: store, targets, tools and policy."""
    await asyncio.to_thread(_make_spool_dir, settings)
    async with AsyncExitStack() as stack:
        watchdog = _watchdog(settings)
        secrets = secrets or Redactor()
        secrets.exchange(learn=[*known_secrets(settings), *(key.secret for key in keys or ())], forget=())
        store, clock = await open_store(settings, secrets, watchdog.renewed if watchdog else _no_lease)
        stack.push_async_callback(store.close)
        targets = settings.model_targets() or (await _demo(stack),)
        context = FeatureContext(settings, store, clock, secrets, config)

        def tools_with_store() -> Mapping[str, Sequence[Tool]]:
            from holdfast.host.tool_groups import tools_with_store  # imported with the other tools

            return tools_with_store(context)

        tools = await stack.enter_async_context(
            open_tools(
                settings, clock, config=config, watchdog=watchdog, further=tools_with_store, sandbox=sandbox
            )
        )
        prices = Prices()
        tools.tasks.start("prices", partial(prices.load, targets))
        processes = SessionProcesses(tools.background)
        grants = SharedNotes(store, "grants")
        always = AlwaysGrants(grants)
        await once_readable(always.load, clock, waits_out=AWAY)
        tools.tasks.start("shared grants", partial(grants.watch, clock, always.load))
        features = await _opened_features(stack, context)
        judge = _judge(settings, tools, always=always, config=config)
        judge = replace(judge, undoable=partial(_can_undo, features))
        yield Parts(
            targets=targets,
            store=store,
            agent=_agent(
                settings,
                tools,
                judge=judge,
                secrets=secrets,
                targets=targets,
                features=features,
            ),
            clock=clock,
            prices=prices,
            authorize=await _authorize(stack, context),
            unattended=settings.approvals.permission_mode == "unattended",
            opening=tools.opening,
            sandbox=partial(_sandbox_shown, settings, tools.opening),
            jobs=SessionJobs(processes.all, processes.read, processes.stop, processes.upkeep(store)),
        )


def _watchdog(settings: Settings) -> "LeaseWatchdog | None":
    """Kills tools if the server loses its lease; None if no other server shares the store."""
    if not settings.server.store:
        return None
    from holdfast.tools.shell.lease_watchdog import LeaseWatchdog

    return LeaseWatchdog(volumes=tuple(settings.volumes.values()))


def _no_lease(sent_s: float) -> None:
    """Ignore the renewal of a lease that nothing depends on."""
    del sent_s


def _can_undo(features: Mapping[str, Any], workspace: Path, path: str) -> bool:
    """Return whether a feature can undo a change of the file. Blocks."""
    of_features = [(FEATURES[name], opened) for name, opened in features.items()]
    return any(one.part(one.can_undo)(opened, workspace, path) for one, opened in of_features if one.can_undo)


async def _opened_features(stack: AsyncExitStack, context: FeatureContext) -> Mapping[str, Any]:
    """Open the features' resources until the stack is closed."""
    opened = {
        one.name: await stack.enter_async_context(one.part(one.opened)(context))
        for one in FEATURES.values()
        if one.opened and one.is_used(context.settings)
    }
    return {name: value for name, value in opened.items() if value is not None}


async def _authorize(stack: AsyncExitStack, context: FeatureContext) -> Authorize | None:
    """Open the sign-ins until the stack is closed, if a target uses one."""
    if not context.settings.target_auth:
        return None
    one = next(one for one in FEATURES.values() if one.authorize)  # the configuration was checked
    await asyncio.to_thread(import_module, one.module(one.authorize))
    return await stack.enter_async_context(one.part(one.authorize)(context))


def _sandbox_shown(settings: Settings, opening: Opening[OpenedTools]) -> SandboxShown:
    from holdfast.sandbox.summary import is_held, sandbox_line  # nothing else at the start needs it

    wanted, network = settings.sandbox, _network(settings)
    if not opening.is_made:
        says = "The sandbox can't be tested." if opening.has_failed else "The sandbox is being tested."
        return SandboxShown(backend="none", holds=False, network=network, says=says)
    sandbox = opening.result().confiner.sandbox
    return SandboxShown(
        backend=sandbox.backend,
        holds=is_held(sandbox),
        network=network,
        says=sandbox_line(
            sandbox, mode=wanted.mode, approvals=settings.approvals.permission_mode, network=network
        ),
    )


def _network(settings: Settings) -> "NetworkAccess":
    network = settings.sandbox.network
    return network if isinstance(network, str) else "hosts"


def _make_spool_dir(settings: Settings) -> None:
    """Check a separate spool_dir now: it's needed when the disk is full, and then it's too late."""
    if not settings.server.spool_dir:
        return
    try:
        settings.spool_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=settings.spool_dir):
            pass
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            _log.warning("spool_dir %s is full: runs wait until the store is writable", settings.spool_dir)
            return
        raise OSError(f"can't write to spool_dir {settings.spool_dir}: {error.strerror}") from error


async def _demo(stack: AsyncExitStack) -> Target:
    # Imported only when no model is configured, because it takes a while.
    with gc_paused():
        from holdfast.host.demo_model import demo_server, demo_target

    return demo_target((await stack.enter_async_context(demo_server())).base_url)


def _judge(
    settings: Settings, tools: HostTools, *, always: AlwaysGrants, config: Path | None
) -> ConfiguredJudge:
    return ConfiguredJudge(
        mode=settings.approvals.permission_mode,
        rules=rules_of(settings.approvals),
        home=Path.home(),
        protected=own_folders(settings),
        config=config,
        always=always,
        read=tools.read_command,
        secret_finder=tools.secret_finder,
        containment=_sandbox_is_off if settings.sandbox.mode == "off" else tools.containment,
    )


def _sandbox_is_off(_workspace: Path) -> None:
    """Nothing is contained, as the configuration says."""


def _agent(
    settings: Settings,
    tools: HostTools,
    *,
    judge: ConfiguredJudge,
    secrets: Redactor,
    targets: tuple[Target, ...],
    features: Mapping[str, Any],
) -> AgentFactory:
    return partial(
        AgentDeps,
        judge=judge,
        tools=tools.registry,
        session_tools=tools.session_tools,
        workspace=tools.workspace,
        workspaces=tools.workspaces,
        protected=tools.protected,
        identity=settings.agent.identity,
        prompt=_prompt(settings),
        machine=_machine(settings, tools) if settings.agent.prompt != "none" else None,
        instructions=settings.agent.instructions,
        secrets=secrets,
        opened=tools.opening.succeeds,
        spool=Spool(settings.spool_dir),
        placement=placement_of(settings),
        background=tools.tasks,
        context_window=min(target.context_window for target in targets),
        windows=windows_of(targets),
        patching=patching(targets),
        turns_max=settings.agent.turns_max,
        budget=settings.agent.run_budget(),
        answer_bytes_max=settings.agent.answer_bytes_max,
        asks_expire_s=settings.approvals.expires_s,
        summary_model=settings.agent.summary_target,
        vision_model=settings.agent.vision_target,
        blind=blind(targets),
        title_model=_title_model(settings),
        on_expiry=settings.approvals.on_expiry,
        features=features,
    )


def _prompt(settings: Settings) -> str:
    match settings.agent.prompt:
        case "default":
            return BASE
        case "none":
            return ""
        case text:
            return text


def _machine(settings: Settings, tools: HostTools) -> Machine:
    """Describe this server for models."""

    def sandbox() -> str:
        from holdfast.sandbox.summary import sandbox_facts  # imported with the sandbox

        return sandbox_facts(tools.opening.result().confiner.sandbox, network=_network(settings))

    system = os.uname()
    return Machine(
        system=f"{system.sysname} {system.release} ({system.machine})",
        shell_name=lambda: tools.opening.result().shell,
        sandbox=sandbox,
        mode=settings.approvals.permission_mode,
        own_guide=own_config_home() / GUIDE,
    )


def _title_model(settings: Settings) -> str | None:
    """The target that titles chats; the demo model, which knows only its script, titles none."""
    wanted = settings.agent.title_target
    return wanted if settings.targets and wanted != "off" else None


def _options(
    settings: Settings,
    parts: Parts,
    *,
    keys: tuple[ApiKey, ...] | None,
    page: Mapping[str, bytes | Path],
) -> ServerOptions:
    return ServerOptions(
        keys=keys,
        hosts=(settings.server.host, *settings.server.hosts),
        public_url=settings.server.public_url.rstrip("/"),
        mount_path=settings.server.mount_path,
        trusted_proxies=settings.server.trusted_proxies,
        cors_origins=settings.server.cors_origins,
        workspaces=tuple(Path(folder).absolute() for folder in settings.server.workspaces),
        mode_max=settings.approvals.mode_max,
        limits=limits_of(settings),
        model=settings.server.model_name or parts.targets[0].model,
        key_settings={key.name: key for key in settings.keys},
        data_dir=settings.data_dir,
        sandbox=parts.sandbox,
        requires_sandbox=settings.sandbox.mode == "require",
        jobs=parts.jobs.all,
        read_job=parts.jobs.read,
        stop_job=parts.jobs.stop,
        upkeep=parts.jobs.upkeep,
        features={
            one.name: one.part(one.configured)(settings) if one.configured else section
            for one in FEATURES.values()
            if (section := getattr(settings, one.name, None))
        },
        open_files=OpenFiles(connections_to_allow(settings)),
        page=page,
    )


def limits_of(settings: Settings) -> Limits:
    """How much one client may send and hold."""
    limits = settings.server.limits
    waits: dict[str, Any] = {"header_s": limits.header_s or NO_LIMIT_S, "body_s": limits.body_s or NO_LIMIT_S}
    kept_s = {one: days * DAY_S for one, days in _by_source(settings.server.keep_sessions_days).items()}
    return Limits(
        **asdict(limits) | waits,
        relayed_bytes_max=settings.relay.body_bytes_max,
        sessions_kept_s={**Limits().sessions_kept_s, **kept_s},
        sessions_max=_by_source(settings.server.keep_sessions_max),
        sessions_bytes=_by_source(settings.server.keep_sessions_bytes),
        deltas_kept_s=settings.server.keep_deltas_days * DAY_S,
    )


def _by_source(given: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of all sources; `*` stands for those of conversations that aren't named."""
    every = given.get(EVERY_SOURCE)
    rest = {} if every is None else dict.fromkeys(CONVERSATIONS, every)
    return rest | {source: number for source, number in given.items() if source != EVERY_SOURCE}
