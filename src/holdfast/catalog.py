"""The features that Holdfast ships, in the order in which their hooks run."""

from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

if TYPE_CHECKING:
    from holdfast.interfaces.feature import Feature


class Shipped(Struct, frozen=True):
    """A feature's name, and the facts that the program needs even if its folder is absent.

    `logs` are those that it keeps beside sessions: the prefix of their ids by their source. `chats` are the
    platforms that it carries, which are the sources of their sessions. A run needs the feature if one of
    these `run_settings` (fields of `RunSettings`) is set, and a configuration needs it if one of these
    `settings` is (fields of `Settings`, or of its sections). Its unfinished work has notes with the prefix
    `unfinished`, each an `UnfinishedWork`; without the feature, this node doesn't run their sessions. If it
    names a `folder` in the user's configuration folder, its work begins only if that exists.
    """

    name: str
    logs: dict[str, str] = field(default_factory=dict[str, str])
    chats: tuple[str, ...] = ()
    run_settings: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    unfinished: str = ""
    folder: str = ""


class UnfinishedWork(Struct):
    """The session and the node of a note about unfinished work."""

    session_id: str
    node: str = ""


SHIPPED: tuple[Shipped, ...] = (
    Shipped("postgres", settings=("server.store",)),
    Shipped("undo", unfinished="undo/"),
    Shipped("memory", logs={"memory": "mem_"}),
    Shipped("skills", settings=("agent.skills",)),
    Shipped(
        "channels",
        logs={"channel": "chn_"},
        chats=("telegram", "slack", "discord", "bridge", "email", "matrix"),
        settings=("channels",),
    ),
    Shipped("automations", logs={"trigger": "trg_"}),
    Shipped("transcripts"),
    Shipped("profiles", folder="profiles"),
    Shipped("sign_ins", logs={"credential": "crd_"}, settings=("sign_ins", "target_auth")),
    Shipped("hermes_import"),
    Shipped("relay"),
    Shipped("openai"),
    Shipped("hermes"),
    Shipped("ag_ui"),
    Shipped("mcp_server"),
    Shipped("mcp_client", settings=("mcp_servers",)),
    Shipped("browser", settings=("browser.enabled",)),
    Shipped("files"),
    Shipped("acp"),
    Shipped("service"),
    Shipped("backup"),
    Shipped("usage_reports"),
    Shipped("delegation", run_settings=("agent",)),
    Shipped("plans", run_settings=("plan_first", "goal")),
    Shipped("hooks", settings=("hooks",)),
    Shipped("commands"),
    Shipped("speech", settings=("speech.is_on",)),
    Shipped("vision", settings=("agent.vision_target",)),
    Shipped("telemetry", settings=("telemetry.endpoint",)),
)
# Sources of logs that aren't conversations, so session lists and searches exclude them.
LOG_SOURCES: tuple[str, ...] = tuple(source for one in SHIPPED for source in one.logs)
LOG_PREFIXES: tuple[str, ...] = tuple(prefix for one in SHIPPED for prefix in one.logs.values())
# Sources of conversations on platforms, where others may read along.
CHAT_SOURCES: tuple[str, ...] = tuple(chat for one in SHIPPED for chat in one.chats)


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
_ABSENT: tuple[Shipped, ...] = tuple(one for one in SHIPPED if one.name not in FEATURES)


def absent_feature(settings: object) -> tuple[str, str] | None:
    """Return the first run setting that needs an absent feature, and the error text."""
    for one in _ABSENT:
        for setting in one.run_settings:
            if getattr(settings, setting):
                return setting, f"'{setting}' needs the feature {one.name}, which this server doesn't have"
    return None


def absent_features(settings: object) -> dict[str, str]:
    """Return the sections of a configuration that need an absent feature, and its name."""
    return {section: one.name for one in _ABSENT for section in one.settings if attrgetter(section)(settings)}


def frames_for(face: str) -> dict[type, Any]:
    """Import how the features show their events on the face."""
    frames = [one.part(one.frames[face]) for one in FEATURES.values() if face in one.frames]
    return {kind: show for shown in frames for kind, show in shown.items()}
