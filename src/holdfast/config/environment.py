"""Settings from the environment and from flags, and the variables of hermes-agent."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from msgspec import Struct, inspect

from holdfast.config.sources import BadConfiguration, KeyPath, SettingSource
from holdfast.config.validation import SETTINGS, Tree, list_beside, plain
from holdfast.decisions.deadlines import is_local
from holdfast.tools.shell.marker import VARIABLE as MARK

PREFIX = "HOLDFAST_"
CONFIG = "HOLDFAST_CONFIG"
MODEL = "HOLDFAST_MODEL"
PROFILE = "HOLDFAST_PROFILE"
NO_AUTH = "HOLDFAST_NO_AUTH"
API_KEY = "HOLDFAST_API_KEY"
API_KEYS: KeyPath = ("server", "api_keys")
SPECIAL = {
    CONFIG: "Configuration file.",
    MODEL: "Model for the default target.",
    PROFILE: "Profile to use, like `-p NAME`. Other `HOLDFAST_*` variables don't apply to a profile.",
    NO_AUTH: "`1` disables authentication: anyone on this machine can use the server. Loopback only.",
    API_KEY: "The only API key, if `api_keys` isn't set.",
}
YES, NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


class HermesVariable(Struct, frozen=True):
    """A variable of hermes-agent, and the setting that it sets for targets on these wires."""

    variable: str
    table: str
    key: str
    wires: tuple[str, ...]
    only_local: bool = False  # only for targets on this computer or network
    remark: str = ""

    @property
    def place(self) -> str:
        """The setting, for people."""
        remarks = [*self.wires, *(["local targets"] if self.only_local else []), self.remark]
        return f"`targets.{self.table}.{self.key}` ({', '.join(filter(None, remarks))})"


_EVERY_WIRE = ("chat", "anthropic", "responses")
# Where two set the same, the first one counts.
HERMES_TARGETS = (
    HermesVariable("HERMES_CODEX_TTFB_TIMEOUT_SECONDS", "patience", "first_event_s", ("responses",)),
    HermesVariable("HERMES_CODEX_TTFB_MAX_SECONDS", "patience", "first_event_cap_s", ("responses",)),
    HermesVariable("HERMES_CODEX_HARD_TIMEOUT_SECONDS", "patience", "first_event_cap_s", ("responses",)),
    HermesVariable("HERMES_API_TIMEOUT", "patience", "first_event_cap_s", _EVERY_WIRE),
    HermesVariable("HERMES_CODEX_EVENT_STALE_TIMEOUT_SECONDS", "patience", "gap_s", ("responses",)),
    HermesVariable("HERMES_CODEX_TTFB_STRICT", "patience", "strict", ("responses",)),
    HermesVariable(
        "HERMES_CODEX_TTFB_DISABLE_ABOVE_TOKENS", "patience", "strict", ("responses",), remark="if it's 0"
    ),
    HermesVariable(
        "HERMES_LOCAL_STREAM_STALE_TIMEOUT", "patience", "gap_s", ("chat", "anthropic"), only_local=True
    ),
    HermesVariable("HERMES_STREAM_STALE_TIMEOUT", "patience", "gap_s", ("chat", "anthropic")),
    HermesVariable(
        "HERMES_STREAM_RETRIES",
        "retry",
        "attempts_per_target_max",
        _EVERY_WIRE,
        remark="and one more for the first attempt",
    ),
)
HERMES_SERVER: Mapping[str, KeyPath] = {
    "API_SERVER_KEY": API_KEYS,
    "API_SERVER_HOST": ("server", "host"),
    "API_SERVER_PORT": ("server", "port"),
    "API_SERVER_CORS_ORIGINS": ("server", "cors_origins"),
    "API_SERVER_MODEL_NAME": ("server", "model_name"),
    "HERMES_MAX_ITERATIONS": ("agent", "turns_max"),
}
# `holdfast import hermes` reads these.
HERMES_FOLDERS = ("HERMES_HOME", "HERMES_WEBUI_STATE_DIR")


class Layers:
    """All values and where each comes from; the first source to set a key wins."""

    def __init__(self) -> None:
        self.tree: Tree = {}
        self.sources: dict[KeyPath, SettingSource] = {}

    def put(self, path: KeyPath, value: object, source: SettingSource) -> None:
        """Set a key unless it is set already or its parent is no table."""
        table = self.tree
        for step in path[:-1]:
            inner = table.setdefault(str(step), {})
            if not isinstance(inner, dict):
                return
            table = cast("Tree", inner)
        if str(path[-1]) not in table:
            table[str(path[-1])] = value
            self.sources[path] = source

    def has(self, path: KeyPath) -> bool:
        """Whether this key is set."""
        return path in self.sources


def variables() -> dict[str, tuple[KeyPath, inspect.Type]]:
    """Every variable that sets a key: HOLDFAST_PORT sets server.port, HOLDFAST_LOG_LEVEL sets log.level."""
    found: dict[str, tuple[KeyPath, inspect.Type]] = {}
    waiting: list[tuple[KeyPath, inspect.StructType]] = [((), SETTINGS)]
    while waiting:
        path, kind = waiting.pop()
        for field in kind.fields:
            inner, _ = plain(field.type)
            own: KeyPath = (*path, field.name)
            if isinstance(inner, inspect.StructType):
                waiting.append((own, inner))
            elif not _is_tables(inner):
                found[variable_of(own)] = own, field.type if list_beside(field.type) else inner
    return dict(sorted(found.items()))


def variable_of(path: KeyPath) -> str:
    """The variable that sets a key; those of [server] leave out its name."""
    return PREFIX + "_".join(str(step) for step in path if step != "server").upper()


def _is_tables(kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.VarTupleType):
        return isinstance(plain(kind.item_type)[0], inspect.StructType)
    return isinstance(kind, inspect.DictType)


def put_flags(layers: Layers, flags: Mapping[str, object]) -> None:
    """Apply the flags: agent_workspace is --workspace, log_level is --log-level; None means not given."""
    known = variables()
    for name, value in flags.items():
        source = SettingSource("flag", f"--{name.removeprefix('agent_').replace('_', '-')}")
        if value is None or name in {"model", "config"}:
            continue
        if name == "no_auth":
            if value:
                layers.put(API_KEYS, [], source)
            continue
        path, kind = known[PREFIX + name.upper()]
        layers.put(path, _flag_value(value, kind), source)


def _flag_value(value: object, kind: inspect.Type) -> object:
    if isinstance(value, Path | str):
        return from_text(str(value), kind)
    return list(cast("Sequence[object]", value)) if isinstance(value, list | tuple) else value


def put_environment(layers: Layers, environ: Mapping[str, str]) -> None:
    """Apply HOLDFAST_* variables; an empty one counts as unset. Raises BadConfiguration."""
    for name, (path, kind) in variables().items():
        if text := environ.get(name, "").strip():
            layers.put(path, from_text(text, kind), SettingSource("environment", name))
    match environ.get(NO_AUTH, "").strip().lower():
        case word if word in YES:
            layers.put(API_KEYS, [], SettingSource("environment", NO_AUTH))
        case word if word and word not in NO:
            raise BadConfiguration([f"{NO_AUTH}: must be 1 or 0"])
        case _:
            pass


def put_single_key(layers: Layers, environ: Mapping[str, str]) -> None:
    """Lay the variable that holds one key, which a file may also refer to by its name."""
    if environ.get(API_KEY, "").strip():
        layers.put(API_KEYS, [f"env:{API_KEY}"], SettingSource("environment", API_KEY))


def from_text(text: str, kind: inspect.Type) -> object:
    """Convert a text to this type; one that doesn't fit is returned unchanged, for the check to report."""
    match kind:
        case inspect.BoolType():
            low = text.lower()
            return True if low in YES else False if low in NO else text
        case inspect.IntType() | inspect.FloatType():
            return _number(text, kind)
        case inspect.Metadata() if (beside := list_beside(kind)) is not None:
            bare, _ = plain(kind)
            is_choice = isinstance(bare, inspect.LiteralType) and text in bare.values
            return text if is_choice else from_text(text, beside)
        case inspect.VarTupleType():
            # A list of nothing opens doors, so it is never made of stray commas.
            return [item.strip() for item in text.split(",") if item.strip()] or text
        case _:
            return text


def _number(text: str, kind: inspect.IntType | inspect.FloatType) -> int | float | str:
    try:
        return int(text) if isinstance(kind, inspect.IntType) else float(text)
    except ValueError:
        return text


def put_hermes_server(layers: Layers, environ: Mapping[str, str]) -> Iterator[str]:
    """Apply hermes-agent's server variables where nothing else is set; say which had no effect, and why."""
    given = {name: text for name in HERMES_SERVER if (text := environ.get(name, "").strip())}
    known = variables() if given else {}
    for name, text in given.items():
        path = HERMES_SERVER[name]
        kind = known[variable_of(path)][1]
        value: object = [f"env:{name}"] if path == API_KEYS else from_text(text, kind)
        if isinstance(kind, inspect.IntType) and isinstance(value, str):
            yield f"{name} has no effect: it must be a whole number"
            continue
        if layers.has(path):
            yield f"{name} has no effect: {path[-1]} is set by {layers.sources[path]}"
        layers.put(path, value, SettingSource("hermes", name))


def put_hermes_targets(layers: Layers, environ: Mapping[str, str]) -> Iterator[str]:
    """Apply hermes-agent's variables to targets on their wires; say which had no effect, and why."""
    for knob in HERMES_TARGETS:
        text = environ.get(knob.variable, "").strip()
        if not text:
            continue
        value = _hermes_value(knob, text)
        if isinstance(value, str):
            yield f"{knob.variable} has no effect: {value}"
            continue
        wired = [(index, table) for index, table in _targets(layers.tree) if _concerns(knob, table)]
        if not wired:
            local = "local " if knob.only_local else ""
            yield f"{knob.variable} has no effect: no {local}target uses the wire {' or '.join(knob.wires)}"
        for index, target in wired:
            path: KeyPath = ("targets", index, knob.table, knob.key)
            settings = target.setdefault(knob.table, {})
            if isinstance(settings, dict) and knob.key not in settings:
                cast("Tree", settings)[knob.key] = value
                layers.sources[path] = SettingSource("hermes", knob.variable)
            elif (source := layers.sources.get(path)) is not None and source.kind == "hermes":
                yield f"{knob.variable} has no effect on target {index + 1}: {source.name} sets {knob.key}"
            else:
                yield f"{knob.variable} has no effect on target {index + 1}, which sets {knob.key}"


def _concerns(knob: HermesVariable, target: Tree) -> bool:
    if target.get("wire") not in knob.wires:
        return False
    host = urlsplit(str(target.get("base_url", ""))).hostname or ""
    return not knob.only_local or is_local(host)


def _hermes_value(knob: HermesVariable, text: str) -> float | bool | str:
    """Return the setting's value, or why the variable has no effect."""
    if knob.variable == "HERMES_CODEX_TTFB_STRICT":
        return text.lower() in YES
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not number < float("inf"):
        return "it must be a number"
    if knob.key == "strict":
        return True if number <= 0 else "Holdfast itself waits longer for the first event of large requests"
    if knob.table == "retry":
        return 1 + max(0, int(number))  # attempts, with the first one
    return max(0.0, number)  # a negative number means off there; here zero does


def _targets(tree: Tree) -> Iterator[tuple[int, Tree]]:
    targets = tree.get("targets")
    for index, table in enumerate(cast("list[object]", targets) if isinstance(targets, list) else []):
        if isinstance(table, dict):
            yield index, cast("Tree", table)


def unknown_hermes_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """A note for each further variable of hermes-agent."""
    known = {*HERMES_SERVER, *HERMES_FOLDERS, *(knob.variable for knob in HERMES_TARGETS)}
    for name in sorted(environ):
        if name.startswith("HERMES_") and name not in known and environ[name].strip():
            yield f"{name} has no effect: Holdfast has no such setting"


def unknown_variables(environ: Mapping[str, str], *, used: frozenset[str]) -> Iterator[str]:
    """A warning for each HOLDFAST_* variable that sets nothing and that no setting refers to."""
    known = [*variables(), *SPECIAL]
    for name in sorted(environ):
        if name.startswith(PREFIX) and name not in {*known, *used, MARK}:
            near = difflib.get_close_matches(name, known, n=1)
            yield f"{name} is not a setting" + (f"; did you mean {near[0]}?" if near else "")
