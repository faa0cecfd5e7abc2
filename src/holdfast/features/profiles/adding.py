"""Adds a profile: a folder with its configuration and its identity."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from holdfast.config.files import FILE_NAME
from holdfast.config.load import read_environment
from holdfast.config.sources import BadConfiguration
from holdfast.config.toml import parse_toml
from holdfast.features.profiles.scope import MAIN, NAME, folder_of

IDENTITY = "soul.md"
_FILE = "file:"


def add_profile(name: str, *, workspace: Path, config: str | None = None) -> Path:
    """Create the profile's folder and return it. Raises BadConfiguration or OSError. Blocks."""
    if not NAME.fullmatch(name) or name == MAIN:
        text = f"{name[:100]!r} can't be a profile's name: use 1 to 64 of a-z, 0-9, - and _"
        raise BadConfiguration([text])
    folder = folder_of(name)
    if (folder / FILE_NAME).exists():
        raise BadConfiguration([f"the profile {name} already exists: {folder}"])
    found = read_environment({"config": config}).file
    tree: Mapping[str, object] = parse_toml(found.text) if found is not None else {}
    lines = [f"# The profile {name}. Everything that isn't set here has its default.", "", "[agent]"]
    lines += [f'identity = "{_FILE}{IDENTITY}"', f"workspace = {_toml(str(workspace.absolute()))}"]
    for table in cast("list[Mapping[str, object]]", tree.get("targets", [])):
        base = found.path.absolute().parent if found is not None else Path()
        lines += ["", "[[targets]]", *_lines(table, base)]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(folder / IDENTITY, f"You are {name}.\n")
    _write(folder / FILE_NAME, "\n".join(lines) + "\n")
    return folder


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


def _lines(table: Mapping[str, object], base: Path) -> Iterator[str]:
    for key, value in table.items():
        yield f"{_key(key)} = {_toml(_with_whole_paths(value, base))}"


def _with_whole_paths(value: object, base: Path) -> object:
    """Make the names of files independent of the folder of the configuration that they come from."""
    if isinstance(value, str) and value.startswith(_FILE):
        path = value.removeprefix(_FILE)
        return value if path.startswith(("/", "~")) else f"{_FILE}{base / path}"
    if isinstance(value, list):
        return [_with_whole_paths(one, base) for one in cast("list[object]", value)]
    if isinstance(value, dict):
        return {key: _with_whole_paths(one, base) for key, one in cast("dict[str, object]", value).items()}
    return value


def _key(key: str) -> str:
    return key if key.replace("-", "").replace("_", "").isalnum() and key.isascii() else _toml(key)


def _toml(value: object) -> str:
    """A value on one line: as in JSON, but for tables and one control character."""
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        return f"{{ {', '.join(f'{_key(key)} = {_toml(one)}' for key, one in pairs)} }}" if pairs else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, cast('list[object]', value)))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
