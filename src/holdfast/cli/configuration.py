"""`holdfast config check`: the effective settings and where each comes from; keys stay hidden.

`holdfast config trust`: from now on, the configuration file of a directory counts as it stands.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import msgspec

from holdfast.cli.terminal.output import echo, echo_error
from holdfast.config.files import FILE_NAME, ConfigFile, IgnoredFile, config_home, read_config
from holdfast.config.load import (
    BadConfiguration,
    ConfigInputs,
    Loaded,
    load,
    load_configuration,
    read_environment,
)
from holdfast.config.secret_values import command_parts, read_found_file
from holdfast.config.settings import PatienceSettings, Secret, TargetSettings
from holdfast.config.sources import KeyPath, dotted
from holdfast.config.trust import TrustedFiles, TrustUnreadable
from holdfast.config.value_formats import is_loopback, shown_database
from holdfast.decisions.deadlines import LOCAL, REMOTE, WHY_TEXT, Limit, RequestFacts, effective, is_local
from holdfast.decisions.proxies import shown_proxy
from holdfast.safe_text import exact_line
from holdfast.values import asks_less

OK, FAILED = 0, 1
TEXT_CHARS_MAX = 200
VALUE_COLUMN = 44


def check(flags: Mapping[str, object]) -> int:
    """Print the effective settings, or what is wrong with them; the exit code."""
    try:
        loaded = load_configuration(flags)
    except BadConfiguration as error:
        for line in error.lines:
            echo_error(f"holdfast: {line}")
        return FAILED
    for line in report(loaded):
        echo(line)
    for line in loaded.warnings:
        echo_error(f"holdfast: warning: {line}")
    return OK


def report(loaded: Loaded) -> Iterator[str]:
    """The settings as they would be written, each with its source behind it."""
    if loaded.ignored is not None:
        yield from _ignored(loaded.ignored)
        yield "# Settings in effect without it:"
    if loaded.file or not loaded.ignored:
        yield f"# {loaded.file}" if loaded.file else "# no holdfast.toml"
    yield from _table(loaded.settings, (), loaded=loaded)
    if loaded.is_demo:
        yield ""
        yield "# No target: the built-in demo model answers. Set a key such as ANTHROPIC_API_KEY,"
        yield "# start a local model server, or configure [[targets]] in holdfast.toml."
    if loaded.notes:
        yield ""
        yield from (f"# {note}" for note in loaded.notes)


def _ignored(file: IgnoredFile) -> Iterator[str]:
    yield f"# {file.headline}."
    if file.sets:
        yield f"# It would set: {', '.join(file.sets)}."
    if file.advice:
        yield f"# {file.advice}."


def _table(table: msgspec.Struct, path: KeyPath, *, loaded: Loaded) -> Iterator[str]:
    """The keys of a table, then the tables in it."""
    inner: list[tuple[KeyPath, msgspec.Struct]] = []
    for key, value in _items(table):
        own: KeyPath = (*path, key)
        if isinstance(value, msgspec.Struct):
            inner.append((own, value))
        elif _is_tables(value):
            tables = cast("tuple[msgspec.Struct, ...]", value)
            inner += [((*own, index), one) for index, one in enumerate(tables)]
        else:
            source = str(loaded.sources.of(own))
            yield f"{f'{key} = {_shown(value, own, loaded=loaded)}':<{VALUE_COLUMN}} # {source}"
    for own, struct in inner:
        yield ""
        yield _header(own)
        if isinstance(struct, PatienceSettings):
            yield from _patience(struct, own, loaded=loaded)
        else:
            yield from _table(struct, own, loaded=loaded)


def _items(table: msgspec.Struct) -> Iterator[tuple[str, object]]:
    for name in table.__struct_fields__:
        yield name, getattr(table, name)


def _is_tables(value: object) -> bool:
    if not isinstance(value, tuple):
        return False
    items = cast("tuple[object, ...]", value)
    return bool(items) and isinstance(items[0], msgspec.Struct)


def _header(path: KeyPath) -> str:
    name = ".".join(step for step in path if isinstance(step, str))
    return f"[[{name}]]" if isinstance(path[-1], int) else f"[{name}]"


def _shown(value: object, path: KeyPath, *, loaded: Loaded) -> str:
    """A value as it would be written; of a secret, where it stands or that it is there."""
    if (reference := loaded.references.get(path)) is not None:
        return json.dumps(reference, ensure_ascii=False)
    match value:
        case tuple() if path[-1] == "command":
            parts = command_parts(cast("tuple[str, ...]", value))
            return f"[{', '.join(_text(f'{plain}(hidden)' if secret else plain) for plain, secret in parts)}]"
        case Secret() | None if path[-1] == "proxy":
            return _text(shown_proxy(value or ""))
        case Secret():
            hidden = _text(shown_database(value)) if path[-1] in {"store", "store_direct"} else "(hidden)"
            return hidden if value else '""'
        case str():
            return _text(value)
        case bool():
            return "true" if value else "false"
        case None:
            return "(generated on the first start)"
        case tuple():
            items = enumerate(cast("tuple[object, ...]", value))
            return f"[{', '.join(_shown(item, (*path, index), loaded=loaded) for index, item in items)}]"
        case dict():
            pairs = cast("dict[str, object]", value).items()
            inside = ", ".join(f"{key} = {_shown(one, (*path, key), loaded=loaded)}" for key, one in pairs)
            return f"{{ {inside} }}" if inside else "{}"
        case _:
            return f"{value:g}" if isinstance(value, float) else str(value)


def _text(text: str) -> str:
    """A text on one line; the query of a URL may hold a key."""
    url, question, _ = text.partition("?")
    if question and url.startswith(("http://", "https://")):
        return json.dumps(f"{url}?…", ensure_ascii=False)
    cut = text if len(text) <= TEXT_CHARS_MAX else f"{text[:TEXT_CHARS_MAX]}…"
    return json.dumps(cut, ensure_ascii=False)


def _patience(given: PatienceSettings, path: KeyPath, *, loaded: Loaded) -> Iterator[str]:
    """Describe the configured patience, or the default for a small request."""
    owner = loaded.settings.targets[cast("int", path[1])]
    usual = _usual(owner)
    for key, value in _items(given):
        limit = usual[key] if value is None else None
        counts = limit.patience_s if limit else value
        why = f", {WHY_TEXT[limit.why]}" if limit and WHY_TEXT[limit.why] else ""
        source = f"{loaded.sources.of((*path, key))}{why}"
        yield f"{f'{key} = {_shown(counts, (*path, key), loaded=loaded)}':<{VALUE_COLUMN}} # {source}"


def _usual(target: TargetSettings) -> dict[str, Limit]:
    local = is_local(urlsplit(target.base_url).hostname or "")
    deadlines = effective(target.target().patience, RequestFacts(local=local, input_tokens=0))
    usual = LOCAL if local else REMOTE
    return {
        "connect_s": deadlines.connect,
        "upload_s": deadlines.upload,
        "first_event_s": deadlines.first_event,
        "first_event_cap_s": Limit("first_event", usual.first_event_cap_s, "default"),
        "first_progress_s": deadlines.first_progress,
        "gap_s": deadlines.gap,
    }


def trust(name: str | None) -> int:
    """Show what the file may do and let it count; the exit code."""
    try:
        file, inputs = _given(name)
        loaded = load(inputs)
        _book(inputs).trust(file.path, file.text)
    except (BadConfiguration, TrustUnreadable, OSError) as error:
        echo_error(f"holdfast: {error}")
        return FAILED
    lines = [f"  {exact_line(line)}" for line in powers(loaded)]
    ending = " It:" if lines else ""
    echo(f"Holdfast now trusts {_shown_path(file.path)}. If the file changes, trust it again.{ending}")
    for line in lines:
        echo(line)
    return OK


def distrust(name: str | None) -> int:
    """Let the file no longer count; the exit code."""
    path = _path(name)
    try:
        known = _book(read_environment({"config": None})).forget(path)
    except (BadConfiguration, TrustUnreadable, OSError) as error:
        echo_error(f"holdfast: {error}")
        return FAILED
    echo(
        f"Holdfast no longer trusts {_shown_path(path)}." if known else f"{_shown_path(path)} wasn't trusted."
    )
    return OK


def _shown_path(path: Path) -> str:
    return exact_line(str(path.resolve()))


def _path(name: str | None) -> Path:
    path = Path(name or FILE_NAME)
    return path / FILE_NAME if path.is_dir() else path


def _given(name: str | None) -> tuple[ConfigFile, ConfigInputs]:
    path = _path(name)
    file = read_config(path, read=read_found_file)
    if file is None:
        raise BadConfiguration([f"{path}: file not found"])
    return file, read_environment({"config": str(path)})


def _book(inputs: ConfigInputs) -> TrustedFiles:
    return TrustedFiles(config_home(inputs.environ))


def powers(loaded: Loaded) -> Iterator[str]:
    """Describe the risks of a configuration."""
    settings = loaded.settings
    for sign_in in settings.sign_ins:
        yield f"renews your sign-in {sign_in.name} at {sign_in.issuer}"
    for index, target in enumerate(settings.targets):
        token = f", with your sign-in {target.auth}" if target.auth else ""
        yield f"sends conversations to {target.base_url} (target {target.name}){token}"
        if target.proxy and _in_file(loaded, ("targets", index, "proxy")):
            yield f"sends them through the proxy {shown_proxy(target.proxy)}"
    for path, reference in loaded.references.items():
        if loaded.sources.near(path).kind == "file":
            yield f"reads {reference} (for {dotted(path)})"
    for server in settings.mcp_servers:
        yield f"starts {' '.join(server.command)}" if server.command else f"calls tools at {server.url}"
        if server.env:
            yield f"sets {', '.join(server.env)} for {server.name}"
    for hook in settings.hooks:
        yield f"starts {' '.join(hook.command)} ({hook.on}), outside the sandbox"
    for channel in settings.channels:
        yield f"lets people talk to the agent on {channel.kind} (channel {channel.name})"
    yield from _of_server(loaded)
    yield from _of_agent(loaded)


def _of_server(loaded: Loaded) -> Iterator[str]:
    server = loaded.settings.server
    if not is_loopback(server.host):
        yield f"lets other machines call the server (server.host = {server.host})"
    if _in_file(loaded, ("server", "api_keys")):
        who = "anyone with one of its keys" if server.api_keys else "anyone on this machine"
        yield f"lets {who} call the server (server.api_keys)"
    if server.workspaces:
        yield f"lets every key use workspaces in {', '.join(server.workspaces)} (server.workspaces)"
    if server.cors_origins:
        yield f"lets web pages of {', '.join(server.cors_origins)} call it (server.cors_origins)"


def _of_agent(loaded: Loaded) -> Iterator[str]:
    settings = loaded.settings
    if _in_file(loaded, ("agent", "workspace")):
        yield f"lets agents work in {settings.workspace} (agent.workspace)"
    if settings.approvals.mode != "ask":
        yield f"requires fewer approvals (approvals.mode = {settings.approvals.mode})"
    if asks_less(settings.approvals.mode_max, "ask"):
        yield f"lets chats and added keys require fewer approvals ({settings.approvals.mode_max})"
    for rule in settings.approvals.rules:
        if rule.verdict == "allow":
            what = " ".join((*rule.argv, *rule.paths, rule.host)).strip() or "anything"
            yield f"lets {rule.tool} run without approval: {what}"
    if settings.agent.instructions:
        yield "adds instructions to every run (agent.instructions)"


def _in_file(loaded: Loaded, path: KeyPath) -> bool:
    return loaded.sources.of(path).kind == "file"
