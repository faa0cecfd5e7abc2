"""The settings of [[channels]]: the chat platforms on which people talk to the agent."""

from typing import Annotated, Literal

import msgspec

from holdfast.config.fields import Amount, Secret, doc


class ChannelSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[[channels]]: chat platforms on which people talk to the agent; `holdfast channels` shows them."""

    name: Annotated[str, doc("The name of the channel: letters, digits, - and _.", "name")]
    kind: Annotated[Literal["telegram", "slack", "discord"], doc("The platform.")]
    token: Annotated[
        Secret,
        doc(
            "The bot's token: @BotFather gives you Telegram's, Slack's begins with xoxb-, and Discord shows "
            "it on the page Bot of your application.",
            "key",
        ),
    ]
    app_token: Annotated[
        Secret,
        doc(
            "Slack's app-level token for Socket Mode, which begins with xapp-. With `webhook_url`, it isn't "
            "needed.",
            "key",
        ),
    ] = Secret("")
    signing_secret: Annotated[
        Secret,
        doc(
            "Slack's signing secret, for `webhook_url`: Slack shows it on the page Basic Information of your "
            "app.",
            "key",
        ),
    ] = Secret("")
    base_url: Annotated[
        str,
        doc("Another API server, such as one of your own; empty means the platform's.", "url or empty"),
    ] = ""
    webhook_url: Annotated[
        str,
        doc(
            "The public https address of this server, if Telegram or Slack should call it; empty means that "
            "the server connects to the platform, which needs no public address.",
            "url or empty",
        ),
    ] = ""
    allow: Annotated[
        tuple[str, ...],
        doc("The platform's ids of people who may talk to the agent, besides those who paired with a code."),
    ] = ()
    approvers: Annotated[
        tuple[str, ...],
        doc("The ids of those who may approve actions; if empty, those who paired with a code."),
    ] = ()
    groups: Annotated[
        Literal["off", "mention", "all"],
        doc("Which messages in groups are for the agent: none, those that mention it, or all."),
    ] = "mention"
    workspace: Annotated[
        str, doc("The folder that the agent works in; empty means the server's.", "path")
    ] = ""
    target: Annotated[str, doc("The target that answers; empty means the first.")] = ""
    instructions: Annotated[str, doc("Additional instructions for the agent.", "text or file")] = ""
    tools: Annotated[tuple[str, ...], doc("The tools that the agent may use; empty means all.")] = ()
    approvals: Annotated[
        Literal["", "ask", "allow-workspace", "unattended"],
        doc("The approval mode of its conversations, as in `approvals.mode`; empty means the server's."),
    ] = ""
    sandbox: Annotated[
        Literal["", "offline"],
        doc(
            "What its commands may reach: empty means what `[sandbox]` says; `offline` means no network, and "
            "no command without a sandbox."
        ),
    ] = ""
    budget_usd: Annotated[Amount, doc("The most US dollars for each message; 0 means no limit.")] = 0.0
