"""The targets and keys of hermes-agent (config.yaml, .env, auth.json) as tables for holdfast.toml.

Guesses the wire from an address, where hermes-agent's configuration doesn't name it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import msgspec
import yaml

from holdfast.config.environment import Layers, put_hermes_targets
from holdfast.config.settings import SignInName
from holdfast.config.target_secrets import KEY_CHARS_MIN, names_secret
from holdfast.config.toml import parse_toml
from holdfast.config.value_formats import is_loopback
from holdfast.features.hermes_import.auth import StoredKey, StoredKeys, read_auth, secrets_in
from holdfast.features.hermes_import.home_files import read_home_text
from holdfast.features.hermes_import.messages import json_of
from holdfast.features.hermes_import.personas import AGENTS, IDENTITY, identity_of, personalities_in
from holdfast.features.hermes_import.taken import (
    ImportedChannel,
    TakenSearch,
    TakenSettings,
    TakenTarget,
    Variables,
)
from holdfast.features.sign_ins.providers import provider_of
from holdfast.targets import Wire
from holdfast.tools.files.yaml_text import BadYaml, parse_yaml

_RESPONSES_HOSTS = frozenset({"api.openai.com", "api.x.ai"})
_KIMI_CODE = "https://api.kimi.com/coding"
_KIMI_CODE_KEYS = "sk-kimi-"


def place_of(base_url: str, key: str) -> tuple[str, Wire | None]:
    """The address in Holdfast's form, and the wire if the address implies one."""
    parts = urlsplit(base_url)
    host, path = (parts.hostname or "").lower(), parts.path.rstrip("/").lower()
    if host in _RESPONSES_HOSTS:
        return base_url, "responses"
    if host == "generativelanguage.googleapis.com" and not path.endswith("/openai"):
        return f"{base_url}/openai", "chat"  # hermes-agent uses Google's own protocol there
    # One name means two services there, and the key decides which.
    if host == "api.kimi.com" or (host == "api.moonshot.ai" and key.startswith(_KIMI_CODE_KEYS)):
        return _KIMI_CODE, "anthropic"
    if path.endswith(("/anthropic", "/anthropic/v1")):
        return base_url.removesuffix("/v1"), "anthropic"
    return base_url, None


WIRES: Mapping[str, Wire] = {
    "chat_completions": "chat",
    "codex_responses": "responses",
    "anthropic_messages": "anthropic",
    "responses": "responses",
}
# Unset placeholders in a .env file.
PLACEHOLDERS = frozenset(
    {"changeme", "your_api_key", "your_api_key_here", "your-api-key", "placeholder", "example", "dummy"}
    | {"null", "none"}
)
SECRET_CHARS_MIN = 4
CONFIG_CHARS_MAX = 256 * 1024
UNNAMED = frozenset({"", "auto"})
PAIR = (
    "stop hermes-agent's gateway, run `holdfast channels pair {}`, and send the code there: until then, no "
    "one can approve"
)
_SLACK_ID = re.compile(r"[UW][A-Z0-9]*")
_IN_ADDRESS = re.compile(r"\w+://[^/?#@\s]*?:([^/?#\s]+)@")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=(.*)", re.ASCII)

Table = Mapping[str, object]


class Provider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A known provider."""

    names: tuple[str, ...]
    wire: Wire
    base_url: str
    keys: tuple[str, ...]
    base_url_variable: str = ""
    keyless: bool = False


class _SignsIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    names: tuple[str, ...]


class _SignIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    names: tuple[str, ...]
    auth: SignInName


class _Providers(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    providers: tuple[Provider, ...]
    sign_ins: tuple[_SignIn, ...]
    signs_in: _SignsIn


@dataclass(frozen=True, slots=True)
class _Sources:
    """Where the meaning of a target's fields is looked up."""

    config: Table
    environ: Mapping[str, str] = field(repr=False)
    stored: StoredKeys = field(repr=False)


class TargetUnfit(Exception):
    """A target can't be imported; the text is the rest of a sentence about it."""


def read_settings(home: Path) -> TakenSettings:
    """Read all settings that Holdfast can use."""
    taken = TakenSettings()
    environ = taken.environ = Variables(_environ(home, taken))
    config = taken.config = _config(home, taken)
    stored = read_auth(home)
    taken.more_secrets = (*stored.secrets, *_secrets_in(environ), *secrets_in(config), *_passwords_in(config))
    sources = _Sources(config, environ, stored)
    for provider, entry in _wanted(config):
        try:
            target = _target(provider, entry, sources)
        except TargetUnfit as error:
            taken.problems.append(f"target {provider or 'auto'}: {error}")
        else:
            _add(taken, replace(target, patience=_timeouts(provider, target.model, config)))
    _sign_ins(taken, stored)
    taken.problems += stored.left()
    taken.has_stored_keys = bool(stored.used or taken.sign_ins)
    _note_keys(taken, config)
    _agent(taken, home, config, environ)
    _search(taken, environ)
    taken.zone = _text(config.get("timezone")) or environ.get("HERMES_TIMEZONE", "")
    _patience(taken, environ)
    _server(taken, config, environ)
    _bot(taken, environ, platform="Telegram")
    _slack(taken, environ)
    _bot(taken, environ, platform="Discord")
    if servers := _table(config.get("mcp_servers")):
        names = ", ".join(sorted(servers))
        taken.keys["mcp_servers"] = "see the next steps"
        taken.steps.append(f"review the MCP servers ({names}), then configure them as [[mcp_servers]]")
    return taken


def _sign_ins(taken: TakenSettings, stored: StoredKeys) -> None:
    """The sign-ins of the targets, as far as hermes-agent has stored their tokens."""
    for name in dict.fromkeys(target.auth for target in taken.targets if target.auth):
        tokens = stored.sign_in(name)
        if tokens is None:
            taken.steps.append(f"run `holdfast auth login {name}`")
            continue
        taken.sign_ins[name] = tokens
        taken.steps.append(
            f"stop hermes-agent, or run `holdfast auth login {name}`: both programs have one refresh token, "
            "so the first that renews it signs the other out"
        )


_MODEL_KEYS = ("default", "model", "name", "provider", "base_url", "api_key", "key_env", "api_mode")
_MODEL_OPTIONS = ("context_length", "default_headers", "extra_headers")


def _note_keys(taken: TakenSettings, config: Table) -> None:
    """Note which keys of config.yaml are used, and why providers aren't."""
    used = ("model", "provider", "fallback_providers", "fallback_model", "timezone")
    taken.keys |= dict.fromkeys((one for one in used if not isinstance(config.get(one), dict)), "")
    taken.keys |= dict.fromkeys((f"model.{one}" for one in (*_MODEL_KEYS, *_MODEL_OPTIONS)), "")
    if isinstance(config.get("fallback_model"), dict):
        taken.keys["fallback_model"] = ""
    wanted = {_plain(name.removeprefix("custom:")) for name, _ in _wanted(config)}
    for name in _table(config.get("providers")):
        is_used = _plain(name.removeprefix("custom:")) in wanted
        taken.keys[f"providers.{name}"] = "" if is_used else "no model uses it; add it as [[targets]]"
    listed = config.get("custom_providers")
    names = [_text(_table(one).get("name")) for one in cast("list[object]", listed or [])]
    unused = [name for name in names if _plain(name) not in wanted]
    taken.keys["custom_providers"] = ""
    if unused:
        taken.problems.append(f"custom_providers: no model uses {', '.join(unused)}; add them as [[targets]]")


def _timeouts(provider: str, model: str, config: Table) -> dict[str, object]:
    """The time limits of a provider or of one of its models."""
    providers = _table(config.get("providers"))
    named = [_table(one) for name, one in providers.items() if _plain(name) == _plain(provider)]
    about = named[0] if named else _table(None)
    of_model = _table(_table(about.get("models")).get(model))
    found: dict[str, object] = {}
    for key, names in {
        "first_event_cap_s": ("timeout_seconds", "request_timeout_seconds"),
        "gap_s": ("stale_timeout_seconds",),
    }.items():
        given = [table.get(name) for table in (of_model, about) for name in names]
        seconds = next((one for one in given if isinstance(one, int | float) and one > 0), None)
        if seconds is not None:
            found[key] = seconds
    return found


def _agent(taken: TakenSettings, home: Path, config: Table, environ: Mapping[str, str]) -> None:
    """The identity, the personalities and the limits of runs."""
    try:
        if identity := identity_of(home):
            taken.files[IDENTITY] = f"{identity}\n"
            taken.agent["identity"] = f"file:{IDENTITY}"
    except (OSError, ValueError) as error:
        taken.problems.append(f"SOUL.md: can't read the file: {error}")
    for name, text in personalities_in(config).items():
        taken.files[f"{AGENTS}/{name}.md"] = text
    agent = _table(config.get("agent"))
    turns = agent.get("max_turns") or environ.get("HERMES_MAX_ITERATIONS", "")
    if str(turns).isdecimal():
        taken.agent["turns_max"] = int(str(turns))
    terminal = _table(config.get("terminal"))
    folder = Path(_text(terminal.get("cwd")) or environ.get("MESSAGING_CWD", "")).expanduser()
    if _text(terminal.get("backend")) in {"", "local"} and folder.is_absolute() and folder.is_dir():
        taken.agent["workspace"] = str(folder)
        taken.keys["terminal.cwd"] = ""
    if instructions := _text(agent.get("system_prompt")):
        taken.agent["instructions"] = instructions
    names = ("agent.max_turns", "agent.system_prompt", "agent.personalities", "personalities")
    taken.keys |= dict.fromkeys(names, "")


# Services that both know, with the variable of the key or address.
_SEARCHES = {
    "TAVILY_API_KEY": "tavily",
    "EXA_API_KEY": "exa",
    "BRAVE_SEARCH_API_KEY": "brave",
    "SEARXNG_URL": "searxng",
}


def _search(taken: TakenSettings, environ: Mapping[str, str]) -> None:
    for variable, service in _SEARCHES.items():
        if value := environ.get(variable, ""):
            is_url = variable.endswith("_URL")
            taken.search = TakenSearch(service, "" if is_url else value, value if is_url else "")
            return


def _secrets_in(environ: Mapping[str, str]) -> Iterator[str]:
    """Secrets that no target uses, but that may be in a conversation."""
    for name, value in environ.items():
        if names_secret(name) and len(value) >= KEY_CHARS_MIN:
            yield value


def _passwords_in(config: Table) -> Iterator[str]:
    """The passwords in addresses, which the report shows."""
    left: list[object] = [config]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += cast("dict[object, object]", value).values()
        elif isinstance(value, list):
            left += cast("list[object]", value)
        elif isinstance(value, str) and (match := _IN_ADDRESS.match(value.strip())):
            yield match[1]


def _add(taken: TakenSettings, target: TakenTarget) -> None:
    same = (target.base_url, target.model)
    if same not in [(known.base_url, known.model) for known in taken.targets]:
        names = {known.name for known in taken.targets}
        number = next(n for n in range(1, 1000) if _numbered(target.name, n) not in names)
        name = _numbered(target.name, number)
        taken.targets.append(replace(target, name=name))


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


def _environ(home: Path, taken: TakenSettings) -> dict[str, str]:
    """The variables of the .env file."""
    path = home / ".env"
    try:
        text = read_home_text(home, path)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        taken.problems.append(f"{path}: can't read the file: {error}")
        return {}
    found: dict[str, str] = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            found[match[1]] = _unquoted(match[2].strip())
    return {name: value for name, value in found.items() if _is_set(name, value)}


def _is_set(name: str, value: str) -> bool:
    """Whether the variable has a real value; a placeholder for a key isn't one."""
    if not name.endswith(("_KEY", "_TOKEN")):
        return bool(value)
    return len(value) >= SECRET_CHARS_MIN and value.lower() not in PLACEHOLDERS and value.strip("*") != ""


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] in "'\"" and text[0] in text[1:]:
        return text[1 : text.index(text[0], 1)]
    return text.partition(" #")[0].strip()


def _config(home: Path, taken: TakenSettings) -> Table:
    path = home / "config.yaml"
    try:
        found = parse_yaml(read_home_text(home, path), yaml.SafeLoader, chars_max=CONFIG_CHARS_MAX)
    except FileNotFoundError:
        taken.problems.append(f"{path}: file not found, so there are no targets to import")
        return {}
    except BadYaml as error:
        taken.problems.append(f"{path}: can't read the file: it {error}")
        return {}
    except (OSError, ValueError) as error:
        taken.problems.append(f"{path}: can't read the file: {error}")
        return {}
    return _table(found)


def _table(value: object) -> Table:
    """A table with its keys as texts, which in YAML may be numbers, dates or nothing."""
    table = cast("dict[object, object]", value) if isinstance(value, dict) else {}
    return {str(key): each for key, each in table.items()}


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def _wanted(config: Table) -> Iterator[tuple[str, Table]]:
    """Yield the main model, then the fallbacks in order, as provider name and settings."""
    model = config.get("model")
    main = {"model": model} if isinstance(model, str) else _table(model)
    if main:
        yield (_text(main.get("provider")) or _text(config.get("provider"))).lower(), main
    listed = config.get("fallback_providers")
    if isinstance(listed, str):  # as `hermes config set` writes a list
        listed = json_of(listed)
    fallbacks = cast("list[object]", listed) if isinstance(listed, list) else []
    for entry in (*fallbacks, config.get("fallback_model")):
        if fields := _table(entry):
            yield _text(fields.get("provider")).lower(), fields


def _target(provider: str, entry: Table, sources: _Sources) -> TakenTarget:
    environ = sources.environ
    model = next((found for key in ("default", "model", "name") if (found := _text(entry.get(key)))), "")
    own = _own_provider(provider, sources.config)
    if not own and model and (signed := _with_sign_in(provider, model)) is not None:
        return signed
    known = _known(provider, base_url=_text(entry.get("base_url")), sources=sources) if not own else None
    merged: Table = {**own, **{key: value for key, value in entry.items() if value}}
    model = model or _text(own.get("model")) or _text(own.get("default_model"))
    if not model:
        raise TargetUnfit("it names no model")
    elsewhere = environ.get(known.base_url_variable, "") if known else ""
    if merged.get("key_cmd"):
        raise TargetUnfit("its key comes from a command (key_cmd); configure a key instead")
    names = known.names if known else (provider, f"custom:{_plain(provider.removeprefix('custom:'))}")
    found = _key(merged, known, names=names, sources=sources)
    base_url = _resolved(merged.get("base_url"), environ) or elsewhere or found.base_url
    base_url = base_url or (known.base_url if known else "")
    if not base_url:
        raise TargetUnfit("it has no base_url")
    base_url, wire_there = place_of(base_url.rstrip("/"), found.key)
    wire = WIRES.get(_text(merged.get("api_mode")).lower()) or wire_there or (known.wire if known else "chat")
    window = merged.get("context_length")
    headers = {**_table(merged.get("default_headers")), **_table(merged.get("extra_headers"))}
    return TakenTarget(
        name=_name(known.names[0] if known and provider in UNNAMED else provider),
        wire=wire,
        base_url=base_url,
        model=model,
        key=found.key,
        more_keys=found.more,
        context_window=window if isinstance(window, int) and window > 0 else 0,
        headers={name: _resolved(value, environ) for name, value in headers.items()},
    )


def _with_sign_in(provider: str, model: str) -> TakenTarget | None:
    """The target of a provider that people sign in to, if Holdfast can do that."""
    known = next((one for one in _shipped().sign_ins if provider in one.names), None)
    if known is None:
        return None
    found = provider_of(known.auth, ())
    return TakenTarget(name=provider, wire=found.wire, base_url=found.base_url, model=model, auth=known.auth)


def _shipped() -> _Providers:
    text = Path(__file__).with_name("providers.toml").read_text("utf-8")
    return msgspec.convert(parse_toml(text), _Providers)


def _name(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text).strip("-") or "main"


def _own_provider(name: str, config: Table) -> Table:
    """A provider that the configuration itself describes."""
    for key, described in _table(config.get("providers")).items():
        if _plain(key) == _plain(name) and _table(described).get("base_url"):
            return _table(described)
    listed = config.get("custom_providers")
    for entry in cast("list[object]", listed) if isinstance(listed, list) else []:
        if _plain(_text(_table(entry).get("name"))) == _plain(name.removeprefix("custom:")):
            return _table(entry)
    return {}


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "-")


def _known(name: str, *, base_url: str, sources: _Sources) -> Provider:
    data = _shipped()
    if name in data.signs_in.names:
        raise TargetUnfit("it signs in through a browser or another program, so there is no key to import")
    if name in UNNAMED:
        found = [
            one
            for one in data.providers
            if (one.base_url == base_url.rstrip("/") if base_url else _has_key(one, sources))
        ]
        custom = next(one for one in data.providers if "custom" in one.names)
        if not found and not base_url:
            raise TargetUnfit("it names no provider, and no key identifies one")
        return found[0] if found else custom
    for one in data.providers:
        if name in one.names:
            return one
    raise TargetUnfit("Holdfast doesn't know this provider; configure it as [[targets]] with its base_url")


def _has_key(one: Provider, sources: _Sources) -> bool:
    return any(key in sources.environ for key in one.keys) or sources.stored.has(*one.names)


def _key(entry: Table, known: Provider | None, *, names: tuple[str, ...], sources: _Sources) -> StoredKey:
    """The target's key: what its own fields say, else the one in .env, else the one in auth.json."""
    environ = sources.environ
    if given := _resolved(entry.get("api_key"), environ):
        return StoredKey(given)
    if variable := _text(entry.get("key_env")) or _text(entry.get("api_key_env")):
        if variable in environ:
            return StoredKey(environ[variable])
        if (kept := sources.stored.key_for(*names)) is not None:
            return kept
        raise TargetUnfit(f"its key is in {variable}, which .env doesn't contain")
    for variable in known.keys if known else ():
        if variable in environ:
            return StoredKey(environ[variable])
    if (kept := sources.stored.key_for(*names)) is not None:
        return kept
    if known is None or known.keyless:
        return StoredKey("")
    raise TargetUnfit(f"neither .env nor auth.json has a key for it ({' or '.join(known.keys)})")


def _resolved(value: object, environ: Mapping[str, str]) -> str:
    """A text with ${NAME} replaced; raises TargetUnfit if .env doesn't contain the variable."""

    def replaced(match: re.Match[str]) -> str:
        if match[1] not in environ:
            raise TargetUnfit(f"it refers to {match[1]}, which .env doesn't contain")
        return environ[match[1]]

    return _VARIABLE.sub(replaced, _text(value))


def _patience(taken: TakenSettings, environ: Mapping[str, str]) -> None:
    """hermes-agent's options from .env, applied to the targets that they concern."""
    layers = Layers()
    tables: list[dict[str, object]] = [
        {"wire": one.wire, "base_url": one.base_url, "patience": dict(one.patience)} for one in taken.targets
    ]
    layers.tree["targets"] = tables
    taken.problems += put_hermes_targets(layers, environ)
    for index, table in enumerate(tables):
        patience, retry = _table(table.get("patience")), _table(table.get("retry"))
        taken.targets[index] = replace(taken.targets[index], patience=patience, retry=retry)


def _server(taken: TakenSettings, config: Table, environ: Mapping[str, str]) -> None:
    """Import the API server's key and address, which its clients use."""
    given = _api_server(taken, config)

    def setting(name: str) -> str:
        value = environ.get(f"API_SERVER_{name.upper()}", "") or given.get(name, "")
        return ",".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(value)

    taken.server_key = setting("key")
    host = setting("host")
    if host and not taken.server_key and not is_loopback(host):
        taken.problems.append(f"API_SERVER_HOST {host}: without a key, the server listens only on loopback")
    elif host:
        taken.server["host"] = host
    if (port := setting("port")).isdecimal():
        taken.server["port"] = int(port)
    origins = [one.strip() for one in setting("cors_origins").split(",")]
    if any(origins):
        taken.server["cors_origins"] = [one for one in origins if one]
    if name := setting("model_name"):
        taken.server["model_name"] = name


def _api_server(taken: TakenSettings, config: Table) -> Table:
    """The same settings in config.yaml, which has three places for them."""
    gateway = _table(config.get("gateway"))
    found: dict[str, object] = {}
    for place, table in {"platforms": config, "gateway.platforms": gateway}.items():
        found |= _of_platform(_table(table.get("platforms")))
        if "api_server" in _table(table.get("platforms")):
            taken.keys[f"{place}.api_server" if place == "platforms" else place] = ""
    if "api_server" in gateway:
        found |= _of_platform(gateway)
        taken.keys["gateway.api_server"] = ""
    return found


def _of_platform(table: Table) -> Table:
    own = _table(table.get("api_server"))
    return {**_table(own.get("extra")), **own}


def _bot(taken: TakenSettings, environ: Mapping[str, str], *, platform: str) -> None:
    """Import a bot and its allow list; who may talk there isn't thereby allowed to approve here."""
    prefix = platform.upper()
    token = environ.get(f"{prefix}_BOT_TOKEN", "").strip()
    if not token or token.lower() in PLACEHOLDERS:
        return
    users = _users(environ, f"{prefix}_ALLOWED_USERS")
    allowed = tuple(user for user in users if user.isdecimal())
    home = environ.get(f"{prefix}_HOME_CHANNEL", "")
    taken.channels.append(ImportedChannel(kind=platform.lower(), token=token, allow=allowed, home=home))
    if left := [user for user in users if not user.isdecimal()]:
        taken.problems.append(f"{platform}: {', '.join(left)} can't be allowed: only numeric ids can")
    if environ.get(f"{prefix}_ALLOWED_ROLES"):
        taken.problems.append(f"{platform}: roles can't be allowed ({prefix}_ALLOWED_ROLES), only people")
    taken.steps.append(PAIR.format(platform.lower()))


def _slack(taken: TakenSettings, environ: Mapping[str, str]) -> None:
    """The app and its allow list, if it has both tokens."""
    token, app_token = (environ.get(name, "").strip() for name in ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN"))
    if not token or token.lower() in PLACEHOLDERS:
        return
    if not app_token or app_token.lower() in PLACEHOLDERS:
        taken.problems.append("Slack: SLACK_APP_TOKEN is missing, but Socket Mode needs it")
        return
    users = _users(environ, "SLACK_ALLOWED_USERS")
    allowed = tuple(user for user in users if _SLACK_ID.fullmatch(user))
    home = environ.get("SLACK_HOME_CHANNEL", "")
    taken.channels.append(
        ImportedChannel(kind="slack", token=token, app_token=app_token, allow=allowed, home=home)
    )
    if left := [user for user in users if not _SLACK_ID.fullmatch(user) and not user.isdecimal()]:
        taken.problems.append(f"Slack: {', '.join(left)} can't be allowed: only ids like U012AB3CD can")
    taken.steps.append(PAIR.format("slack"))


def _users(environ: Mapping[str, str], name: str) -> list[str]:
    """The people whom a list names, and those who may talk everywhere."""
    listed = f"{environ.get(name, '')},{environ.get('GATEWAY_ALLOWED_USERS', '')}"
    return list(dict.fromkeys(user.strip() for user in listed.split(",") if user.strip()))
