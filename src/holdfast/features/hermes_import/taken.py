"""The settings that an import takes, before they become tables of holdfast.toml."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from holdfast.config.settings import SignInName
from holdfast.config.target_secrets import secrets_in
from holdfast.features.sign_ins.tokens import Tokens
from holdfast.targets import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenTarget:
    """A target for holdfast.toml; its key goes into a separate file."""

    name: str
    wire: Wire
    base_url: str
    model: str
    key: str = field(default="", repr=False)
    more_keys: tuple[str, ...] = field(default=(), repr=False)
    auth: SignInName = ""
    context_window: int = 0
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    patience: Mapping[str, object] = field(default_factory=dict[str, object])
    retry: Mapping[str, object] = field(default_factory=dict[str, object])


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedChannel:
    """A chat platform's bot, the ids of those who may talk to it, and its home chat."""

    kind: str
    token: str = field(repr=False)
    app_token: str = field(default="", repr=False)  # Slack's second token
    allow: tuple[str, ...]
    home: str


class Variables(dict[str, str]):
    """The variables of .env, and which of them were used."""

    def __init__(self, found: Mapping[str, str]) -> None:
        super().__init__(found)
        self.used: set[str] = set()

    @override
    def __getitem__(self, name: str) -> str:
        value = super().__getitem__(name)
        self.used.add(name)
        return value

    @override
    def get(self, name: str, default: Any = None, /) -> Any:
        self.used.add(name)
        return super().get(name, default)


@dataclass(frozen=True, slots=True)
class TakenSearch:
    """The service for web searches, with its key or address."""

    service: str
    key: str = field(default="", repr=False)
    url: str = ""


@dataclass(slots=True)
class TakenSettings:
    """The imported settings, and descriptions of those that couldn't be imported."""

    targets: list[TakenTarget] = field(default_factory=list[TakenTarget])
    sign_ins: dict[str, Tokens] = field(default_factory=dict[str, Tokens], repr=False)
    server: dict[str, object] = field(default_factory=dict[str, object])
    agent: dict[str, object] = field(default_factory=dict[str, object])
    search: TakenSearch | None = None
    zone: str = ""  # of the jobs
    has_stored_keys: bool = False  # from auth.json
    files: dict[str, str] = field(default_factory=dict[str, str])  # texts, by their paths here
    steps: list[str] = field(default_factory=list[str])  # what people have to do themselves
    config: Mapping[str, object] = field(default_factory=dict[str, object], repr=False)
    environ: Variables = field(default_factory=lambda: Variables({}), repr=False)
    keys: dict[str, str] = field(default_factory=dict[str, str])
    server_key: str = field(default="", repr=False)
    channels: list[ImportedChannel] = field(default_factory=list[ImportedChannel])
    problems: list[str] = field(default_factory=list[str])
    more_secrets: tuple[str, ...] = field(default=(), repr=False)  # that were found and are of no use here

    @property
    def secrets(self) -> tuple[str, ...]:
        """All secrets that must not get into a log."""
        found = [self.server_key, *self.more_secrets]
        found += [token for channel in self.channels for token in (channel.token, channel.app_token)]
        found += [self.search.key] if self.search else []
        for target in self.targets:
            for key in (target.key, *target.more_keys):
                found += secrets_in(key, target.headers, base_url=target.base_url)
        return tuple(found)
