"""The features that Holdfast ships, in the order in which their hooks run."""

from importlib import import_module
from typing import TYPE_CHECKING

from msgspec import Struct, field

if TYPE_CHECKING:
    from holdfast.interfaces.feature import Feature


class Shipped(Struct, frozen=True):
    """A feature's name, and the logs it keeps beside sessions: the prefix of their ids by their source.

    The logs are listed here, so that they aren't taken for sessions when the feature's folder is absent.
    """

    name: str
    logs: dict[str, str] = field(default_factory=dict[str, str])


SHIPPED: tuple[Shipped, ...] = (
    Shipped("channels", logs={"channel": "chn_"}),
    Shipped("automations", logs={"trigger": "trg_"}),
    Shipped("hermes_import"),
    Shipped("ag_ui"),
    Shipped("mcp_server"),
    Shipped("acp"),
)
LOG_SOURCES: tuple[str, ...] = tuple(source for one in SHIPPED for source in one.logs)
LOG_PREFIXES: tuple[str, ...] = tuple(prefix for one in SHIPPED for prefix in one.logs.values())


def _present() -> "dict[str, Feature]":
    """Return the declarations of the features that are there, with everything they require."""
    found: dict[str, Feature] = {}
    for one in SHIPPED:
        package = f"holdfast.features.{one.name}"
        try:
            feature: Feature = import_module(package).FEATURE
        except ModuleNotFoundError as error:
            if error.name not in {package, "holdfast.features"}:
                raise
            continue
        if all(name in found for name in feature.requires):
            found[one.name] = feature
    return found


FEATURES: "dict[str, Feature]" = _present()
