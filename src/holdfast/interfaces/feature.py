"""The contract of a feature: everything it adds to the program, as data.

A feature is a folder in `holdfast/features`. Its `__init__.py` declares one `Feature` and imports nothing
else of the folder. The core knows features only through `catalog.py`: delete a folder, and the rest works.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

if TYPE_CHECKING:
    from holdfast.config.settings import Settings
    from holdfast.interfaces.clock import Clock
    from holdfast.interfaces.journal import Store


class FeatureContext(Struct, frozen=True):
    """The inputs of a feature's tools. The store removes secrets from everything appended to it."""

    settings: "Settings"
    store: "Store"
    clock: "Clock"


class DoctorContext(Struct, frozen=True):
    """The inputs of a feature's checks. While offline, they call no other program."""

    settings: "Settings"
    clock: "Clock"
    is_offline: bool


class Feature(Struct, frozen=True, kw_only=True):
    """A feature's parts, all optional. "module:name" is relative to the folder, and imported on first use."""

    name: str
    requires: tuple[str, ...] = ()  # features that this one can't work without

    # Its events: a tuple of types. They are decoded whether or not the feature is used.
    events: str = ""

    # HTTP: a tuple of `Operation`s, and the classes that answer them, by the first part of the endpoint. With
    # "triggers": "routes:TriggerRoutes", `triggers.list` is the method `list` of TriggerRoutes(RouteParts).
    operations: str = ""
    routes: Mapping[str, str] = field(default_factory=dict[str, str])

    # Owners of the feature's logs, by source: `async (log_id, fence, deps: RouteDeps) -> None`. A node runs
    # one for each log that it can claim.
    owners: Mapping[str, str] = field(default_factory=dict[str, str])

    # Tools for every run: `(context: FeatureContext) -> Sequence[Tool]`.
    tools: str = ""

    # Commands of `holdfast`, by name: a `typer.Typer` for a group, or a function (its first line is help).
    commands: Mapping[str, str] = field(default_factory=dict[str, str])

    # The settings for its routes: `(settings: Settings) -> Any`, stored in `deps.options.features[name]`.
    # Called only if the section named like the feature isn't empty.
    configured: str = ""

    # Work beside the server until it's cancelled: `async (deps: RouteDeps, settings, runtime) -> None`.
    work: str = ""

    # Its fields of /health/detailed: `async (deps: RouteDeps) -> Mapping[str, Any]`.
    health: str = ""

    # Findings of `holdfast doctor`: `async (context: DoctorContext) -> Sequence[DoctorFinding]`.
    doctor: str = ""

    def part(self, name: str) -> Any:
        """Import a part by its "module:name"."""
        module, _, attribute = name.partition(":")
        return getattr(import_module(f"holdfast.features.{self.name}.{module}"), attribute)

    def module(self, name: str) -> str:
        """Return the full name of the module that a part is in."""
        return f"holdfast.features.{self.name}.{name.partition(':')[0]}"
