"""`holdfast config check`: the effective settings and where each comes from; keys stay hidden."""

import json
from collections.abc import Iterator, Mapping
from typing import cast
from urllib.parse import urlsplit

import msgspec

from holdfast.cli.terminal.output import echo, echo_error
from holdfast.config.files import IgnoredFile
from holdfast.config.load import Loaded, load_configuration
from holdfast.config.secret_values import command_parts
from holdfast.config.settings import PatienceSettings, Secret, TargetSettings
from holdfast.config.sources import BadConfiguration, KeyPath
from holdfast.config.value_formats import shown_database
from holdfast.decisions.deadlines import LOCAL, REMOTE, WHY_TEXT, Limit, RequestFacts, effective, is_local
from holdfast.decisions.proxies import shown_proxy

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
