"""The imported settings as the user's holdfast.toml, with each key in its own file."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.config.files import FILE_NAME, ConfigFile
from holdfast.config.load import BadConfiguration, ConfigInputs, load
from holdfast.config.secret_values import TextFile, read_text_file
from holdfast.config.target_secrets import is_secret_header
from holdfast.features.hermes_import.taken import (
    ImportedChannel,
    TakenSearch,
    TakenSettings,
    TakenTarget,
)

KEYS = "keys"
FileOutcome: TypeAlias = Literal["nothing", "written", "same", "other", "wrong"]


class ImportPlan(Struct, frozen=True):
    """The files to write: the configuration, and the keys it refers to."""

    folder: Path
    text: str
    keys: Mapping[str, str]
    files: Mapping[str, str] = {}  # further texts, by their paths in the folder

    def __repr__(self) -> str:
        """The keys stay out of logs and tracebacks."""
        return f"ImportPlan({self.folder}, {sorted(self.keys)})"

    @property
    def path(self) -> Path:
        """The configuration."""
        return self.folder / FILE_NAME

    def faults(self, environ: Mapping[str, str]) -> tuple[str, ...]:
        """Why a server wouldn't start with it."""

        def read(path: Path) -> TextFile:
            own = {**self.keys, **self.files}
            return TextFile(own[path.name]) if path.name in own else read_text_file(path)

        try:
            load(ConfigInputs(environ=environ, file=ConfigFile(self.path, self.text), read=read))
        except BadConfiguration as error:
            return error.lines
        return ()

    def outcome(self, environ: Mapping[str, str]) -> FileOutcome:
        """Describe the plan. An existing file is never changed."""
        if not self.text:
            return "nothing"
        if self.faults(environ):
            return "wrong"
        if not self.path.exists():
            return "written"
        return "same" if self.path.read_text("utf-8", errors="replace") == self.text else "other"

    def carry_out(self, environ: Mapping[str, str]) -> FileOutcome:
        """Write the file if there is none; raises OSError."""
        outcome = self.outcome(environ)
        # The tables to add to an existing file name the files of the keys, too.
        for name, key in self.keys.items() if outcome in {"written", "other"} else ():
            if outcome == "written" or not (self.folder / KEYS / name).exists():
                write_private(self.folder / KEYS / name, f"{key}\n")
        if outcome == "written":
            write_private(self.path, self.text)
        for name, text in self.files.items():
            if not (self.folder / name).exists():
                write_private(self.folder / name, text)
        return outcome


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text, encoding="utf-8")


def plan_of(taken: TakenSettings, folder: Path) -> ImportPlan:
    """The plan for these settings; an empty text if there is nothing to say."""
    if not (
        taken.targets or taken.server or taken.server_key or taken.channels or taken.agent or taken.search
    ):
        return ImportPlan(folder, "", {}, taken.files)
    keys = {name: key for target in taken.targets for name, key in _keys(target).items()}
    keys |= {file: one.headers[key] for one in taken.targets for key, file in _secret_headers(one).items()}
    lines = ["# Imported from hermes-agent. The keys are in the files named here.", *_server(taken)]
    if taken.agent:
        lines += ["", "[agent]", *(f"{key} = {_value(value)}" for key, value in taken.agent.items())]
    if taken.search is not None:
        keys |= {"hermes-web-search": taken.search.key} if taken.search.key else {}
        lines += _search(taken.search)
    for target in taken.targets:
        lines += _target(target)
    if taken.server_key:
        keys["hermes-api-server"] = taken.server_key
    for channel in taken.channels:
        keys[f"hermes-{channel.kind}"] = channel.token
        keys |= {f"hermes-{channel.kind}-app": channel.app_token} if channel.app_token else {}
        lines += _channel(channel)
    return ImportPlan(folder, "\n".join(lines) + "\n", keys, taken.files)


def _search(search: TakenSearch) -> Iterator[str]:
    yield ""
    yield "[web_search]"
    yield f"service = {_toml(search.service)}"
    if search.key:
        yield f'api_key = "file:{KEYS}/hermes-web-search"'
    if search.url:
        yield f"url = {_toml(search.url)}"


def _value(value: object) -> str:
    return _toml(value) if isinstance(value, str) else json.dumps(value)


def _server(taken: TakenSettings) -> Iterator[str]:
    if taken.server or taken.server_key:
        yield ""
        yield "[server]"
        yield from (f"{key} = {json.dumps(value)}" for key, value in taken.server.items())
    if taken.server_key:
        yield f'api_keys = ["file:{KEYS}/hermes-api-server"]'


def _channel(channel: ImportedChannel) -> Iterator[str]:
    yield ""
    yield "[[channels]]"
    yield f'name = "{channel.kind}"'
    yield f'kind = "{channel.kind}"'
    yield f'token = "file:{KEYS}/hermes-{channel.kind}"'
    if channel.app_token:
        yield f'app_token = "file:{KEYS}/hermes-{channel.kind}-app"'
    yield f"allow = {json.dumps(channel.allow)}"
    if channel.home:
        yield f"home = {_toml(channel.home)}"


def _target(target: TakenTarget) -> Iterator[str]:
    yield ""
    yield "[[targets]]"
    for key in ("name", "wire", "base_url", "model"):
        yield f"{key} = {_toml(getattr(target, key))}"
    if target.auth:
        yield f"auth = {_toml(target.auth)}"
    files = [_toml(f"file:{KEYS}/{name}") for name in _keys(target)]
    if files:
        yield f"api_key = {files[0]}" if len(files) == 1 else f"api_keys = [{', '.join(files)}]"
    if target.context_window:
        yield f"context_window = {target.context_window}"
    if target.headers:
        secret = _secret_headers(target)
        values = {
            key: f"file:{KEYS}/{secret[key]}" if key in secret else v for key, v in target.headers.items()
        }
        yield f"headers = {{ {', '.join(f'{_toml(k)} = {_toml(v)}' for k, v in values.items())} }}"
    for name, table in (("patience", target.patience), ("retry", target.retry)):
        if table:
            pairs = (f"{key} = {json.dumps(value)}" for key, value in table.items())
            yield f"{name} = {{ {', '.join(pairs)} }}"


def _keys(target: TakenTarget) -> dict[str, str]:
    """The target's keys, by the names of their files."""
    name, keys = f"hermes-{target.name}", (target.key, *target.more_keys)
    return {name if nth == 1 else f"{name}-key-{nth}": key for nth, key in enumerate(keys, 1) if key}


def _secret_headers(target: TakenTarget) -> dict[str, str]:
    """The files of headers that contain a secret."""
    return {
        key: f"hermes-{target.name}-header-{nth}"
        for nth, (key, value) in enumerate(target.headers.items(), 1)
        if is_secret_header(key, value.strip())
    }


def _toml(text: str) -> str:
    """A basic string of TOML: as in JSON, but for one control character."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
