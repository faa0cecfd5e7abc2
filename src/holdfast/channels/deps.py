"""What channels work with, and the settings of one."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from aiohttp import AsyncResolver
from aiohttp.abc import AbstractResolver

from holdfast.interfaces.clock import Clock
from holdfast.interfaces.ids import channel_log_id
from holdfast.interfaces.journal import Store
from holdfast.runner.inbox import Inbox
from holdfast.runner.supervisor import Supervisor
from holdfast.server.channels.doors import ChannelDoors
from holdfast.server.image_urls import HttpsOnly
from holdfast.tools.web.addresses import AddressPolicy
from holdfast.undo.snapshots import Snapshots
from holdfast.values import ApprovalMode, Budget, RunSettings

Kind: TypeAlias = Literal["telegram", "slack", "discord"]
Groups: TypeAlias = Literal["off", "mention", "all"]
FILE_BYTES_MAX = 20 * 1024 * 1024


def hook_url(public_url: str, channel: str) -> str:
    """Where a platform delivers updates to a channel of the server with this address."""
    return f"{public_url.rstrip('/')}/hooks/channels/{channel}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelOptions:
    """One channel as it is configured."""

    name: str
    kind: Kind = "telegram"
    token: str
    app_token: str = ""  # Slack's second token, for its socket
    signing_secret: str = ""  # with which Slack signs its calls, if it calls this server
    base_url: str = ""
    webhook_url: str = ""  # the public address of this server; empty: the server asks the platform
    allow: frozenset[str] = frozenset()
    approvers: frozenset[str] = frozenset()
    groups: Groups = "mention"
    settings: RunSettings = field(default_factory=RunSettings)  # of the runs that its messages start
    approvals: Literal["", ApprovalMode] = ""  # the mode of its sessions; empty: the server's
    file_bytes_max: int = FILE_BYTES_MAX

    @property
    def hook_secret(self) -> str:
        """What the platform sends with each update; it follows from the token, so every node knows it."""
        return hmac.digest(self.token.encode(), self.log_id.encode(), "sha256").hex()

    @property
    def hook_url(self) -> str:
        """Where the platform delivers updates; only with a `webhook_url`."""
        return hook_url(self.webhook_url, self.name)

    @property
    def log_id(self) -> str:
        """The id of the channel's log."""
        return channel_log_id(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelDeps:
    """What all channels share."""

    store: Store
    clock: Clock
    inbox: Inbox
    supervisor: Supervisor
    workspace: Path  # of runs that name none
    snapshots: Snapshots | None = None
    budget: Budget = field(default_factory=Budget)  # of each run, by the server's settings
    doors: ChannelDoors = field(default_factory=ChannelDoors)  # where platforms deliver updates
    models: Callable[[], tuple[str, ...]] = tuple  # the names that /model takes
    webhook_policy: AddressPolicy = field(default_factory=HttpsOnly)  # where results may be posted
    resolver: Callable[[], AbstractResolver] = AsyncResolver
    # How long a request whose answer was lost may still take effect; only then a platform is asked about it.
    settles_s: float = 3.0
    preview_after_s: float = 2.0  # how long a run works before a chat without drafts shows it
    preview_beat_s: float = 1.0  # the least between two changes of what it shows
