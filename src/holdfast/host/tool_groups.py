"""The tools of a server and the sandbox that they run programs in; imported in a thread, beside the start."""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path

from holdfast.catalog import FEATURES
from holdfast.config.settings import Settings
from holdfast.host.fast_imports import gc_paused
from holdfast.host.sandbox_test import tested_sandbox
from holdfast.host.tools import OpenedTools, ToolWorld
from holdfast.interfaces.feature import FeatureContext
from holdfast.interfaces.tool import Tool
from holdfast.models.adapters import adapter_of
from holdfast.sandbox.confinement import Confiner
from holdfast.sandbox.profiles import Profiles, SandboxOptions
from holdfast.sandbox.sandbox import Sandbox
from holdfast.targets import patching
from holdfast.tools.built_in import built_in_tools, shell_of
from holdfast.tools.files.edits import EditFile
from holdfast.tools.on_demand import GROUP, CallFoundTool, FindTools
from holdfast.tools.read_result import ReadResult
from holdfast.tools.recall import SearchSessions
from holdfast.tools.registry import Registry
from holdfast.tools.shell.command_reader import CommandReader

_log = logging.getLogger(__name__)


def open_all(
    settings: Settings,
    world: ToolWorld,
    registry: Registry,
    *,
    further: Callable[[], Mapping[str, Sequence[Tool]]],
) -> OpenedTools:
    """Test the sandbox, and put all tools into the registry. Blocks.

    Runs begin afterwards, so none sees half of the tools.
    """
    with gc_paused():
        for module in ("runner.owner", "models.call"):
            import_module(f"holdfast.{module}")  # the first run needs it
        for wire in {target.wire for target in settings.model_targets()} or {"chat"}:
            adapter_of(wire)
    sandbox = world.sandbox() if world.sandbox else tested_sandbox(settings, world.environment)
    confiner = open_confiner(settings, sandbox, world.environment, kept_out=world.kept_out)
    built_in = built_in_tools(
        world.environment,
        background=world.background,
        kept_out=world.kept_out,
        confiner=confiner,
        protected=world.protected,
        watchdog=world.watchdog,
    )
    if patching(settings.model_targets()):
        built_in += [tool.patches() for tool in built_in if isinstance(tool, EditFile)]
    for group, tools in {"built_in": built_in, **further(), GROUP: [FindTools(), CallFoundTool()]}.items():
        registry.put(group, tools)
    shell = os.path.basename(shell_of(world.environment))  # noqa: PTH119  # a name, not a look at files
    return OpenedTools(confiner, CommandReader(), world.environment, shell)


def open_confiner(
    settings: Settings, sandbox: Sandbox, environment: Mapping[str, str], *, kept_out: tuple[str, ...]
) -> Confiner:
    """Confine commands to this sandbox, as the settings say. Blocks."""
    wanted = settings.sandbox
    if sandbox.why:
        _log.info("sandbox: %s", sandbox.why)
    for path in (*wanted.write, *wanted.read):
        if sandbox.confines is not None and not os.path.lexists(path):
            _log.warning("sandbox: %s doesn't exist, so commands don't have it", path)
    network = wanted.network if isinstance(wanted.network, str) else "hosts"
    options = SandboxOptions(
        home=Path.home(),
        environment=environment,
        network=network,
        hosts=() if isinstance(wanted.network, str) else wanted.network,
        write=wanted.write,
        read=wanted.read,
        caches=wanted.caches,
        own=kept_out,
    )
    return Confiner(sandbox, Profiles(options))


def tools_with_store(context: FeatureContext) -> Mapping[str, Sequence[Tool]]:
    """The tools that use the store, by group."""
    tools: list[Tool] = [SearchSessions(context.store), ReadResult(context.store)]
    search = context.settings.web_search
    if search.service:
        from holdfast.tools.web.search import WebSearch

        tools.append(WebSearch(search.service, url=search.url, key=str(search.api_key)))
    of_features = {one.name: one.part(one.tools)(context) for one in FEATURES.values() if one.tools}
    return {"with_store": tools, **of_features}
