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


@dataclass(frozen=True, slots=True)
class TakenTelegram:
    """A Telegram bot, the ids of those who may talk to it, and its home chat."""

    token: str = field(repr=False)
    allow: tuple[str, ...]
    home: str = ""


@dataclass(frozen=True, slots=True)
class TakenSlack:
    """A Slack app with its two tokens, and the ids of those who may talk to it."""

    token: str = field(repr=False)
    app_token: str = field(repr=False)
    allow: tuple[str, ...]
    home: str = ""


@dataclass(frozen=True, slots=True)
class TakenDiscord:
    """A Discord bot, the ids of those who may talk to it, and its home chat."""

    token: str = field(repr=False)
    allow: tuple[str, ...]
    home: str = ""


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
    telegram: TakenTelegram | None = None
    slack: TakenSlack | None = None
    discord: TakenDiscord | None = None
    problems: list[str] = field(default_factory=list[str])
    more_secrets: tuple[str, ...] = field(default=(), repr=False)  # that were found and are of no use here

    @property
    def secrets(self) -> tuple[str, ...]:
        """All secrets that must not get into a log."""
        found = [self.server_key, *self.more_secrets]
        found += [self.telegram.token] if self.telegram else []
        found += [self.slack.token, self.slack.app_token] if self.slack else []
        found += [self.discord.token] if self.discord else []
        found += [self.search.key] if self.search else []
        for target in self.targets:
            for key in (target.key, *target.more_keys):
                found += secrets_in(key, target.headers, base_url=target.base_url)
        return tuple(found)
