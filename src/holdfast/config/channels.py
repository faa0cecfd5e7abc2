"""The settings of [[channels]]: the chat platforms on which people talk to the agent."""

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import msgspec

from holdfast.catalog import CHAT_SOURCES
from holdfast.config.fields import Amount, Secret, doc
from holdfast.values import ApprovalMode, OldMode

if TYPE_CHECKING:
    KindName: TypeAlias = str
else:
    KindName = Literal[CHAT_SOURCES]


class ChannelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[channels]]: chat platforms where people talk to the agent. See also `holdfast channels`."""

    name: Annotated[str, doc("Name of the channel: letters, digits, - and _.", "name")]
    kind: Annotated[
        KindName,
        doc("Chat platform. `bridge` connects any other platform through a program of yours."),
    ]
    token: Annotated[
        Secret,
        doc(
            "Bot token. Telegram: from @BotFather. Slack: starts with xoxb-. Discord: from the page Bot of "
            "your application. E-mail: the password, or an app password. Matrix: an "
            "access token. Bridge: the "
            "secret that both sides sign with, of at least 24 characters.",
            "key",
        ),
    ]
    app_token: Annotated[
        Secret,
        doc(
            "Slack's app-level token for Socket Mode, which starts with xapp-. Not needed with "
            "`webhook_url`.",
            "key",
        ),
    ] = Secret("")
    signing_secret: Annotated[
        Secret,
        doc(
            "Slack's signing secret, for `webhook_url`. It's on the page Basic Information of your app.",
            "key",
        ),
    ] = Secret("")
    base_url: Annotated[
        str,
        doc(
            "Alternative API server. If empty, the platform's. Bridge: its URL. Matrix: the homeserver.",
            "url or empty",
        ),
    ] = ""
    address: Annotated[str, doc("E-mail: the agent's address.")] = ""
    login: Annotated[str, doc("E-mail: the name to sign in with. If empty, `address`.")] = ""
    imap_url: Annotated[str, doc("E-mail: where mails are read, such as `imaps://imap.example.com`.")] = ""
    smtp_url: Annotated[
        str,
        doc("E-mail: where mails are sent, such as `smtp://smtp.example.com:587`."),
    ] = ""
    authserv_id: Annotated[
        str,
        doc(
            "E-mail: the name that your mail server puts first in its Authentication-Results header. Mails "
            "that it doesn't confirm are ignored. `none`: trust the From header; no one can approve by mail."
        ),
    ] = ""
    webhook_url: Annotated[
        str,
        doc(
            "Public https URL of this server, to receive webhooks from Telegram or Slack. If empty, the "
            "server connects to the platform and needs no public address.",
            "url or empty",
        ),
    ] = ""
    allow: Annotated[
        tuple[str, ...],
        doc("Platform ids of people who can talk to the agent, besides those paired with a code."),
    ] = ()
    approvers: Annotated[
        tuple[str, ...],
        doc("Platform ids of people who can approve actions. If empty, those paired with a code."),
    ] = ()
    groups: Annotated[
        Literal["off", "mention", "all"],
        doc("Group messages that the agent answers: none, those that mention it, or all."),
    ] = "mention"
    home: Annotated[
        str,
        doc(
            'Chat that gets results for the channel itself, such as `deliver = ["tg"]`. If empty, the one in '
            "which an approver sent /home."
        ),
    ] = ""
    workspace: Annotated[str, doc("Directory that the agent works in. If empty, the server's.", "path")] = ""
    target: Annotated[str, doc("Target that answers. If empty, the first.")] = ""
    instructions: Annotated[str, doc("Additional instructions for the agent.", "text or file")] = ""
    tools: Annotated[tuple[str, ...], doc("Tools that the agent can use. If empty, all.")] = ()
    approvals: Annotated[
        Literal["", ApprovalMode, OldMode],
        doc("Permission mode of its conversations, as in `approvals.mode`. If empty, the server's."),
    ] = ""
    sandbox: Annotated[
        Literal["", "offline"],
        doc(
            "Sandbox for its commands. If empty, as in `[sandbox]`. `offline`: no network, and no commands "
            "without a sandbox."
        ),
    ] = ""
    budget_usd: Annotated[Amount, doc("Maximum cost in US dollars per message; 0 means no limit.")] = 0.0

    @property
    def bot(self) -> tuple[str, ...]:
        """The bot or mailbox, which only one channel can use."""
        # One program can be the bridge of several channels.
        where = self.name if self.kind == "bridge" else self.address
        return (self.kind, str(self.token), self.base_url, where)
