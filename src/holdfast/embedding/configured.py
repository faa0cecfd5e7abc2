"""An agent from holdfast.toml: the parts that a server has, without the server."""

import dataclasses
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import override

from holdfast.agent.deps import AgentDeps, OnAsk
from holdfast.agent.policy import Judge
from holdfast.config.load import Loaded, load, read_environment
from holdfast.config.sources import BadConfiguration
from holdfast.embedding.errors import ConfigurationError
from holdfast.embedding.parts import Configuration, TrustedTools
from holdfast.host.assembly import open_parts
from holdfast.host.lock import DirectoryBusy, DirectoryLock
from holdfast.host.runtime import Runner, open_runner
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Store
from holdfast.interfaces.model import ModelCaller
from holdfast.policy.tool_names import ASK_USER
from holdfast.policy.verdicts import Deny, NeedsApproval, Verdict
from holdfast.runner.supervisor import RunnerLimits
from holdfast.tools.offload import offload
from holdfast.tools.registry import NameTaken, Registry
from holdfast.values import Action, ApprovalMode, Choice, GrantRule, Width

Opened: TypeAlias = AbstractAsyncContextManager[Runner]


@dataclasses.dataclass(frozen=True, slots=True)
class OwnToolsJudge(Judge):
    """Trusts the program's own tools as any agent does, and leaves the others to the configured policy."""

    own: Registry
    trusted: Judge
    configured: Judge

    def _of(self, action: Action) -> Judge:
        is_own = self.own.get(action.tool) is not None
        # In plan mode, not even the program's own tools change anything.
        return self.trusted if is_own and self.applied_mode() != "plan" else self.configured

    @override
    def in_mode(self, mode: Literal["", ApprovalMode]) -> Judge:
        return dataclasses.replace(self, configured=self.configured.in_mode(mode))

    @override
    def applied_mode(self) -> ApprovalMode:
        return self.configured.applied_mode()

    @override
    def verdict(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> Verdict:
        return self._of(action).verdict(action, grants, workspace=workspace)

    @override
    def for_a_person(self, findings: tuple[str, ...]) -> NeedsApproval | Deny:
        return self.configured.for_a_person(findings)

    @override
    def choices(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> tuple[Choice, ...]:
        return self._of(action).choices(action, grants, workspace=workspace)

    @override
    def rule(
        self, action: Action, grants: Sequence[GrantRule], *, workspace: Path, width: Width = "exact"
    ) -> GrantRule | None:
        return self._of(action).rule(action, grants, workspace=workspace, width=width)

    @override
    async def remember(self, grant_id: str, rule: GrantRule) -> None:
        await self.configured.remember(grant_id, rule)

    @override
    def standing(self) -> Mapping[str, GrantRule]:
        return self.configured.standing()

    @override
    async def forget(self, grant_id: str) -> bool:
        return await self.configured.forget(grant_id)


class ConfiguredParts(Struct, frozen=True):
    """The settings of an agent, and what its program adds to them."""

    loaded: Loaded
    own: Registry
    judge: TrustedTools  # of the program's own tools
    on_ask: OnAsk


def configuration(path: str | Path | None) -> Configuration:
    """The configuration of this process; raises ConfigurationError."""
    loaded = _loaded(path)

    def opened(own: Registry, judge: TrustedTools, on_ask: OnAsk) -> Callable[[], Opened]:
        return partial(open_configured, ConfiguredParts(loaded, own, judge, on_ask))

    return Configuration(opened)


def _loaded(path: str | Path | None) -> Loaded:
    try:
        loaded = load(read_environment({"config": str(path)} if path is not None else {}))
    except BadConfiguration as error:
        raise ConfigurationError(f"The configuration has errors:\n{error}") from error
    if loaded.is_demo:
        ignored = f" {loaded.ignored}." if loaded.ignored else ""
        raise ConfigurationError(
            f"No model is configured.{ignored} Add [[targets]], or set a key such as OPENAI_API_KEY."
        )
    return loaded


@asynccontextmanager
async def open_configured(parts: ConfiguredParts) -> AsyncGenerator[Runner]:
    """The runner of a configured agent; leaving it closes the store and lets go of the data directory."""
    settings = parts.loaded.settings
    lock = DirectoryLock(settings.data_dir)
    try:
        await offload(lock.__enter__)
    except (DirectoryBusy, OSError) as error:
        raise ConfigurationError(f"The data directory can't be used: {error}") from error
    try:
        limits = RunnerLimits(settings.server.max_concurrent_runs, settings.server.on_restart)
        async with open_parts(settings, keys=None, config=parts.loaded.file) as built:
            if built.opening is not None:
                built.opening.begin()
                await built.opening.wait()

            def agent(*, store: Store, model: ModelCaller, clock: Clock) -> AgentDeps:
                deps = built.agent(store=store, model=model, clock=clock)
                judge = OwnToolsJudge(parts.own, parts.judge, deps.judge)
                tools = _with_own(deps.tools, parts.own)
                return dataclasses.replace(deps, tools=tools, judge=judge, on_ask=parts.on_ask)

            async with open_runner(replace(built, agent=agent), limits) as runner:
                yield runner
    finally:
        await offload(lambda: lock.__exit__(None, None, None))


def _with_own(configured: Registry, own: Registry) -> Registry:
    """All tools but `ask_user`: in a program, tools ask with ToolContext.ask, not the model."""
    try:
        return configured.without((ASK_USER,)).with_group("own", own.all())
    except NameTaken as error:
        raise ConfigurationError(f"{error} Rename yours with @tool(name=…).") from error
