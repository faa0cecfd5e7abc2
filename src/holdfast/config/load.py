"""The configuration, read once at the edge: flags, environment, holdfast.toml, defaults, in this order."""

import asyncio
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.config.environment import (
    API_KEYS,
    MODEL,
    Layers,
    put_environment,
    put_flags,
    put_hermes_server,
    put_hermes_targets,
    put_single_key,
    unknown_hermes_variables,
    unknown_variables,
)
from holdfast.config.files import ConfigFile, IgnoredFile, find_file, own_environ
from holdfast.config.known_targets import FoundServer, KnownTargets, shipped_known, table_of, tables_by_key
from holdfast.config.proxies import put_proxies
from holdfast.config.secret_values import ENV, References, TextFile, read_text_file
from holdfast.config.server import ServerSettings
from holdfast.config.settings import Settings
from holdfast.config.sources import (
    BadConfiguration,
    ConfigIssue,
    KeyPath,
    SettingSource,
    SettingSources,
    sentence,
)
from holdfast.config.target_secrets import is_secret_header, names_secret
from holdfast.config.toml import lines_of, parsed
from holdfast.config.validation import Checker, Tree
from holdfast.safe_text import exact_line

ISSUES_SHOWN_MAX = 50


@dataclass(frozen=True, slots=True)
class ConfigInputs:
    """The sources of the settings; besides these, only files that they name are read."""

    flags: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    file: ConfigFile | None = None
    read: Callable[[Path], TextFile] = read_text_file
    ignored: IgnoredFile | None = None


class Loaded(Struct, frozen=True):
    """The settings, where each one comes from, and what to tell the user about them."""

    settings: Settings
    sources: SettingSources
    references: Mapping[KeyPath, str]
    file: Path | None
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    ignored: IgnoredFile | None = None

    @property
    def startup_warnings(self) -> tuple[str, ...]:
        """Return the lines to print at the start: the ignored file, and warnings."""
        return (str(self.ignored), *self.warnings) if self.ignored else self.warnings

    @property
    def is_demo(self) -> bool:
        """Whether no target is configured, so that the built-in demo model answers."""
        return not self.settings.targets


def load_configuration(flags: Mapping[str, object]) -> Loaded:
    """The configuration of this process. Raises BadConfiguration. Call it before the event loop starts."""
    return load_or_probe(read_environment(flags))


def load_or_probe(inputs: ConfigInputs, *, known: KnownTargets | None = None) -> Loaded:
    """The settings; if they name no target, look for model servers on this machine."""
    known = known or shipped_known()
    loaded = load(inputs, known=known)
    if not loaded.is_demo:
        return loaded
    from holdfast.config.local_servers import probe_local

    found = asyncio.run(probe_local(known, preferred=_model(inputs)[0]))
    return load(inputs, known=known, found=found) if found else loaded


def read_environment(flags: Mapping[str, object]) -> ConfigInputs:
    """The flags, environment and file of this process. Raises BadConfiguration if a file can't be read."""
    environ = own_environ()
    config = flags.get("config")
    path = Path(str(config)) if config else None
    found = find_file(path, environ, directory=Path.cwd())
    return ConfigInputs(flags=flags, environ=environ, file=found.file, ignored=found.ignored)


def load(
    inputs: ConfigInputs, *, known: KnownTargets | None = None, found: Sequence[FoundServer] = ()
) -> Loaded:
    """The settings. Raises BadConfiguration that lists every error at once."""
    layers = Layers()
    put_flags(layers, inputs.flags)
    put_environment(layers, inputs.environ)
    if inputs.file is not None:
        _put_file(layers, inputs.file)
    put_single_key(layers, inputs.environ)
    notes = [*put_hermes_server(layers, inputs.environ)]
    if layers.tree.get("targets", []) == []:
        _put_targets(layers, inputs, known=known or shipped_known(), found=found)
    startup_warnings = [*_put_model(layers, inputs)]
    notes += put_hermes_targets(layers, inputs.environ)
    notes += unknown_hermes_variables(inputs.environ)
    startup_warnings += put_proxies(layers, inputs.environ)
    layers.put(("server", "data_dir"), ServerSettings().data_dir, SettingSource("default"))
    references = References(
        inputs.environ, partial(_base, inputs, SettingSources(layers.sources)), read=inputs.read
    )
    checked = _checked(layers, inputs, references=references, notes=notes)
    return replace(checked, warnings=(*checked.warnings, *startup_warnings))


def _base(inputs: ConfigInputs, sources: SettingSources, path: KeyPath) -> Path:
    """The folder that a relative path starts from: that of the configuration file, else the current one."""
    return inputs.file.path.parent if inputs.file and sources.near(path).kind == "file" else Path()


def _put_file(layers: Layers, file: ConfigFile) -> None:
    place = str(file.path)
    found: dict[KeyPath, SettingSource] = {}
    tree = parsed(file.text, place)
    for path, line in lines_of(file.text).items():
        if not any(layers.has(path[:length]) for length in range(1, len(path) + 1)):
            found[path] = SettingSource("file", place, line)
    layers.sources |= found
    _merge(layers.tree, tree)


def _merge(tree: Tree, below: Tree) -> None:
    """Add the keys that the tree doesn't have yet, table by table."""
    for key, value in below.items():
        own = tree.setdefault(key, value)
        if own is not value and isinstance(own, dict):
            if isinstance(value, dict):
                _merge(cast("Tree", own), cast("Tree", value))
            else:
                tree[key] = value  # the check reports that a table was expected


def _put_targets(
    layers: Layers, inputs: ConfigInputs, *, known: KnownTargets, found: Sequence[FoundServer]
) -> None:
    """Targets without a configuration: from known keys, else from servers that were found."""
    tables = list(tables_by_key(known, inputs.environ)) or [table_of(one) for one in found]
    layers.tree["targets"] = [table.values for table in tables]
    for index, table in enumerate(tables):
        layers.sources[("targets", index)] = table.source
        layers.sources |= {("targets", index, key): table.source_of(key) for key in table.values}


def _put_model(layers: Layers, inputs: ConfigInputs) -> Iterator[str]:
    """Set the model of the default target; warn if there is no target."""
    model, source = _model(inputs)
    targets = layers.tree.get("targets")
    first = cast("list[object]", targets)[0] if isinstance(targets, list) and targets else None
    if model and isinstance(first, dict):
        first["model"] = model
        layers.sources[("targets", 0, "model")] = source
    elif model and not targets:
        yield f"{source} has no effect: no target is configured, so the built-in demo model answers"


def _model(inputs: ConfigInputs) -> tuple[str, SettingSource]:
    """The model asked for by a flag or a variable, and which of the two."""
    if model := inputs.flags.get("model"):
        return str(model), SettingSource("flag", "--model")
    return inputs.environ.get(MODEL, "").strip(), SettingSource("environment", MODEL)


def _checked(layers: Layers, inputs: ConfigInputs, *, references: References, notes: list[str]) -> Loaded:
    checker = Checker(references)
    tree = checker.settings(layers.tree)
    file = inputs.file
    sources = SettingSources(
        layers.sources, otherwise=SettingSource("file", str(file.path)) if file else SettingSource("default")
    )
    errors = [issue for issue in checker.issues if not issue.is_warning]
    if errors:
        raise BadConfiguration(_lines(errors, sources, tree=layers.tree))
    mild = [issue for issue in checker.issues if issue.is_warning]
    mild += [
        ConfigIssue(path, f"is in {place}, which any user on this machine can read; run `chmod 600` on it")
        for path, place in references.open_to_all.items()
    ]
    warnings = _lines(mild, sources, tree=layers.tree)
    used = {text.removeprefix(ENV) for text in references.found.values() if text.startswith(ENV)}
    warnings += unknown_variables(inputs.environ, used=frozenset(used))
    settings = msgspec.convert(tree, Settings)
    if file is not None and file.open_to_all and _written_keys(settings, sources, references):
        warnings.append(
            f"{file.path}: contains a key, and any user on this machine can read the file; "
            f"run `chmod 600 {shlex.quote(str(file.path))}`"
        )
    return Loaded(
        settings,
        sources,
        references.found,
        file.path if file else None,
        tuple(warnings),
        tuple(notes),
        inputs.ignored,
    )


def _lines(issues: list[ConfigIssue], sources: SettingSources, *, tree: Tree) -> list[str]:
    """The issues as lines, in the order of the file, up to a maximum."""
    ordered = sorted(issues, key=lambda issue: sources.near(issue.path).line)
    lines = [exact_line(sentence(issue, sources, tree=tree)) for issue in ordered[:ISSUES_SHOWN_MAX]]
    more = len(issues) - ISSUES_SHOWN_MAX
    return [*lines, f"and {more} more"] if more > 0 else lines


def _written_keys(settings: Settings, sources: SettingSources, references: References) -> bool:
    """Whether the file contains a key itself and not just a reference to one."""
    keys: list[KeyPath] = [(*API_KEYS, index) for index, _ in enumerate(settings.server.api_keys or ())]
    keys += [("targets", index, "api_key") for index, target in enumerate(settings.targets) if target.api_key]
    for index, target in enumerate(settings.targets):
        keys += [("targets", index, "api_keys", nth) for nth, _ in enumerate(target.api_keys)]
        keys += [("targets", index, "headers", name) for name in _secret_headers(target.headers)]
    for index, server in enumerate(settings.mcp_servers):
        keys += [("mcp_servers", index, "headers", name) for name in _secret_headers(server.headers)]
        keys += [("mcp_servers", index, "env", name) for name in server.env if names_secret(name)]
    for index, channel in enumerate(settings.channels):
        tokens = {name: getattr(channel, name) for name in ("token", "app_token", "signing_secret")}
        keys += [("channels", index, name) for name, token in tokens.items() if token]
    keys += [
        ("targets", index, "proxy")
        for index, target in enumerate(settings.targets)
        if "@" in (target.proxy or "")
    ]
    return any(sources.of(key).kind == "file" and key not in references.found for key in keys)


def _secret_headers(headers: Mapping[str, object]) -> list[str]:
    return [name for name, value in headers.items() if is_secret_header(name, str(value).strip())]
