"""The API keys and sign-ins that `hermes auth` stores in auth.json."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from holdfast.features.hermes_import.home_files import read_home_text
from holdfast.features.hermes_import.messages import json_of, table_of
from holdfast.features.sign_ins.imports import NotImportable, codex_tokens, nous_tokens
from holdfast.features.sign_ins.tokens import Tokens
from holdfast.interfaces.system_clock import SystemClock

FILE = "auth.json"
PROFILES = "profiles"  # profiles, which share the keys of the home above them
SECRET_CHARS_MIN = 8
_SECRET_FIELD = re.compile(r"(?:^|_)(?:token|key|secret|password)s?$", re.IGNORECASE)
HERMES_NAMES = {"codex": "openai-codex", "nous": "nous"}  # of the sign-ins in auth.json
_SIGN_IN_TOKENS = ("sk-ant-oat",)  # these look like keys, but end with their sign-in


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key, its address if that isn't the provider's own, and the provider's other keys for this address."""

    key: str = field(repr=False)
    base_url: str = ""
    more: tuple[str, ...] = field(default=(), repr=False)


@dataclass(slots=True)
class StoredKeys:
    """The content of auth.json, by provider."""

    keys: dict[str, list[StoredKey]] = field(default_factory=dict[str, list[StoredKey]], repr=False)
    signed_in: set[str] = field(default_factory=set[str])
    providers: dict[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]], repr=False
    )
    secrets: list[str] = field(default_factory=list[str], repr=False)  # all, whatever they are good for
    problems: list[str] = field(default_factory=list[str])
    used: set[str] = field(default_factory=set[str])
    above: set[str] = field(default_factory=set[str])  # what only the home above has, which reports it

    def key_for(self, *names: str) -> StoredKey | None:
        """The key for the provider that has one of these names."""
        for name in names:
            if found := self.keys.get(name):
                self.used.add(name)
                more = [one.key for one in found[1:] if one.base_url == found[0].base_url]
                return replace(found[0], more=tuple(dict.fromkeys(more)))
        return None

    def has(self, *names: str) -> bool:
        """Whether there is a key for one of these names."""
        return any(name in self.keys for name in names)

    def sign_in(self, auth: str) -> Tokens | None:
        """The tokens of a sign-in that hermes-agent has stored."""
        name = HERMES_NAMES.get(auth, "")
        found = self.providers.get(name, {})
        try:
            tokens = (
                nous_tokens(found) if auth == "nous" else codex_tokens(found, now_ms=SystemClock().now_ms())
            )
        except NotImportable:
            return None
        self.signed_in.discard(name)
        return tokens

    def left(self) -> Iterator[str]:
        """Describe what wasn't imported, without secrets."""
        yield from self.problems
        for name in sorted(self.used):
            found = self.keys[name]
            if elsewhere := sum(one.base_url != found[0].base_url for one in found):
                yield f"{elsewhere} more keys for {name} in {FILE}: they are for another address"
        if unused := sorted(self.keys.keys() - self.used - self.above):
            yield f"keys in {FILE} that no target uses: {', '.join(unused)}"
        if signed_in := sorted(self.signed_in - self.keys.keys() - self.above):
            yield f"sign-ins in {FILE} ({', '.join(signed_in)}): configure API keys for these targets"


def read_auth(home: Path) -> StoredKeys:
    """The file of this home; a profile takes what is missing from the home above it."""
    stored = StoredKeys()
    above = [home.parent.parent] if home.parent.name == PROFILES else []
    for folder in (home, *above):
        own = stored.keys.keys() | stored.signed_in
        found = _document(folder, stored)
        stored.secrets += secrets_in(found)
        for name, entries in _pool(found).items():
            if name not in stored.keys:
                _take(stored, name, entries)
        providers = table_of(found.get("providers"))
        stored.signed_in |= set(providers)
        for name, state in providers.items():
            stored.providers.setdefault(name, table_of(state))
        if folder != home:
            stored.above = (stored.keys.keys() | stored.signed_in) - own
    return stored


def _document(home: Path, stored: StoredKeys) -> Mapping[str, object]:
    path = home / FILE
    try:
        text = read_home_text(home, path)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        stored.problems.append(f"{path}: can't read the file: {error}")
        return {}
    found = json_of(text)
    table = table_of(found)
    if table is not found:
        stored.problems.append(f"{path}: can't read the file: it isn't a JSON object")
    return table


def _pool(found: Mapping[str, object]) -> Mapping[str, list[Mapping[str, object]]]:
    pool = table_of(found.get("credential_pool"))
    return {
        name.strip().lower(): [table_of(one) for one in cast("list[object]", entries)]
        for name, entries in pool.items()
        if isinstance(entries, list)
    }


def _take(stored: StoredKeys, name: str, entries: list[Mapping[str, object]]) -> None:
    for entry in sorted(entries, key=_priority):
        key = _text(entry.get("access_token"))
        if entry.get("auth_type", "api_key") != "api_key" or key.startswith(_SIGN_IN_TOKENS):
            stored.signed_in.add(name)
        elif key and entry.get("last_status") != "dead":
            stored.keys.setdefault(name, []).append(StoredKey(key, _text(entry.get("base_url"))))


def _priority(entry: Mapping[str, object]) -> int:
    value = entry.get("priority")
    return value if isinstance(value, int) else 0


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


def secrets_in(found: object) -> list[str]:
    """Every text under a name that marks it as secret, at any depth."""
    secrets: list[str] = []
    left: list[tuple[str, object]] = [("", found)]
    while left:
        name, value = left.pop()
        if isinstance(value, dict):
            left += [(str(key), one) for key, one in cast("dict[object, object]", value).items()]
        elif isinstance(value, list):
            left += [(name, one) for one in cast("list[object]", value)]
        elif isinstance(value, str) and _SECRET_FIELD.search(name):
            is_reference = value.startswith("${")
            secrets += [value.strip()] if len(value) >= SECRET_CHARS_MIN and not is_reference else []
    return secrets
