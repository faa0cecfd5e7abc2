"""Targets that need no configuration: those of known keys and of model servers on this machine."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.config.sources import SettingSource
from holdfast.config.toml import parse_toml
from holdfast.targets import Wire


class KnownKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The target that a variable with a key makes."""

    variable: str
    name: str
    wire: Wire
    base_url: str
    model: str
    context_window: int
    base_url_variable: str = ""
    wire_elsewhere: Wire | None = None


class LocalServer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model server that may run on this machine."""

    name: str
    wire: Wire
    base_url: str
    context_window: int


class _Models(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    not_for_chat: tuple[str, ...]


class KnownTargets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The data file."""

    known: tuple[KnownKey, ...]
    local: tuple[LocalServer, ...]
    models: _Models


class FoundServer(Struct, frozen=True):
    """A model server that answered, and the model of it that was chosen."""

    server: LocalServer
    model: str


def shipped_known() -> KnownTargets:
    """The data file that comes with the program."""
    text = Path(__file__).with_name("known_targets.toml").read_text("utf-8")
    return msgspec.convert(parse_toml(text), KnownTargets)


class TargetTable(Struct, frozen=True):
    """A [[targets]] table as a person would write it, and where it comes from."""

    values: dict[str, object]
    source: SettingSource
    elsewhere: SettingSource | None = None

    def source_of(self, key: str) -> SettingSource:
        """Where a key of it comes from."""
        return self.elsewhere if key == "base_url" and self.elsewhere else self.source


def tables_by_key(known: KnownTargets, environ: Mapping[str, str]) -> Iterator[TargetTable]:
    """A table for each known variable that is set."""
    for key in known.known:
        if environ.get(key.variable, "").strip():
            elsewhere = environ.get(key.base_url_variable, "").strip().rstrip("/")
            elsewhere = "" if elsewhere == key.base_url else elsewhere
            values: dict[str, object] = {
                "name": key.name,
                "wire": key.wire_elsewhere if elsewhere and key.wire_elsewhere else key.wire,
                "base_url": elsewhere or key.base_url,
                "model": key.model,
                "api_key": f"env:{key.variable}",
                "context_window": key.context_window,
            }
            moved = SettingSource("environment", key.base_url_variable) if elsewhere else None
            yield TargetTable(values, SettingSource("known key", key.variable), moved)


def table_of(found: FoundServer) -> TargetTable:
    """The table for a server that was found."""
    values = msgspec.structs.asdict(found.server) | {"model": found.model}
    return TargetTable(dict[str, object](values), SettingSource("local server", found.server.base_url))
