"""The dependencies of channels, and the settings of one."""

import dataclasses
import hmac
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from aiohttp import AsyncResolver
from aiohttp.abc import AbstractResolver
from msgspec import Struct, field

from holdfast.config.channels import ChannelSettings
from holdfast.decisions.hook_signatures import HookSignature
from holdfast.features.channels.http.webhook_endpoints import WebhookEndpoints
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.ids import channel_log_id
from holdfast.interfaces.journal import Store
from holdfast.runner.inbox import Inbox
from holdfast.runner.supervisor import Supervisor
from holdfast.server.image_fetcher import HttpsOnly
from holdfast.tools.web.addresses import AddressPolicy
from holdfast.values import ApprovalMode, Budget, RunSettings, mode_named

FILE_BYTES_MAX = 20 * 1024 * 1024


def hook_url(public_url: str, channel: str) -> str:
    """Return the webhook URL of a channel on the server with this address."""
    return f"{public_url.rstrip('/')}/hooks/channels/{channel}"


@dataclasses.dataclass(frozen=True, slots=True)
class ConfiguredChannel:
    """The visible settings of a channel."""

    kind: str
    allow: frozenset[str] = frozenset()
    approvers: frozenset[str] = frozenset()
    hook_secret: str = dataclasses.field(default="", repr=False)  # sent with each update
    signing_secret: str = dataclasses.field(default="", repr=False)  # signs each update
    signature: HookSignature = "slack"  # how it signs


class ChannelOptions(ChannelSettings, frozen=True, kw_only=True):
    """The settings of a channel, and what follows from them."""

    file_bytes_max: int = FILE_BYTES_MAX

    @property
    def run_settings(self) -> RunSettings:
        """Return the settings of its runs."""
        return RunSettings(
            model=self.target,
            instructions=self.instructions,
            workspace=self.workspace,
            tools=self.tools,
            budget=Budget(cost_usd=self.budget_usd) if self.budget_usd else None,
            offline=self.sandbox == "offline",
        )

    @property
    def mode(self) -> Literal["", ApprovalMode]:
        """Return the mode of its sessions; empty for the server's."""
        return mode_named(self.approvals)

    @property
    def hook_secret(self) -> str:
        """Return the secret of the platform's updates, derived from the token so that every node has it."""
        return hmac.digest(self.token.encode(), self.log_id.encode(), "sha256").hex()

    @property
    def hook_url(self) -> str:
        """Return the URL for the platform's updates. Requires a `webhook_url`."""
        return hook_url(self.webhook_url, self.name)

    @property
    def log_id(self) -> str:
        """Return the id of the channel's log."""
        return channel_log_id(self.name)


class ChannelDeps(Struct, frozen=True, kw_only=True):
    """Dependencies shared by all channels."""

    store: Store
    clock: Clock
    inbox: Inbox
    supervisor: Supervisor
    workspace: Path  # the default for runs
    budget: Budget = field(default_factory=Budget)  # the server's limit for each run
    endpoints: WebhookEndpoints = field(default_factory=WebhookEndpoints)  # for platform updates
    models: Callable[[], tuple[str, ...]] = tuple  # names accepted by /model
    mode_max: ApprovalMode = "ask"  # the least strict permission mode that /mode sets
    webhook_policy: AddressPolicy = field(default_factory=HttpsOnly)  # URLs that results can be posted to
    resolver: Callable[[], AbstractResolver] = AsyncResolver
    # How long an unanswered request can still take effect; only after that, the platform is checked for it.
    settles_s: float = 3.0
    preview_after_s: float = 2.0  # delay before a chat without drafts shows a preview
    preview_beat_s: float = 1.0  # minimum time between two updates of a preview
