"""The commands for chat platforms, as the program knows them."""

from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.options import AsJson, Config, DataDir

channels_app = typer.Typer(
    help="Manage chat channels and who can use them.",
    no_args_is_help=True,
)
Channel = Annotated[str, typer.Argument(metavar="NAME", help="Channel name from the configuration.")]
User = Annotated[str, typer.Argument(metavar="USER", help="The person's id on the platform.")]


@channels_app.command("list", short_help="List channels and their status.")
def channels_list(as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """List channels with their status, the people who have access, and pending deliveries."""
    from holdfast.features.channels.cli.actions import list_channels

    raise typer.Exit(list_channels(_flags(data_dir, config), form="json" if as_json else "text"))


@channels_app.command("pair", short_help="Create a pairing code.")
def channels_pair(
    name: Channel, as_json: AsJson = False, data_dir: DataDir = None, config: Config = None
) -> None:
    """Create a pairing code and print it.

    The first person to send it to the bot within 10 minutes can talk to the agent and approve actions. Five
    wrong tries void all codes.
    """
    from holdfast.features.channels.cli.actions import pair

    raise typer.Exit(pair(_flags(data_dir, config), name, form="json" if as_json else "text"))


@channels_app.command("allow", short_help="Let someone talk to the agent.")
def channels_allow(
    name: Channel,
    user: User,
    approver: Annotated[bool, typer.Option("--approver", help="Also let them approve actions.")] = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Let someone talk to the agent."""
    from holdfast.features.channels.cli.actions import allow

    role = "approver" if approver else "user"
    raise typer.Exit(allow(_flags(data_dir, config), name, user, role=role))


@channels_app.command("revoke", short_help="Revoke someone's access.")
def channels_revoke(name: Channel, user: User, data_dir: DataDir = None, config: Config = None) -> None:
    """Revoke someone's access to the agent. Overrides the configuration."""
    from holdfast.features.channels.cli.actions import revoke

    raise typer.Exit(revoke(_flags(data_dir, config), name, user))


@channels_app.command("test", short_help="Send a test message to a chat.")
def channels_test(
    name: Channel,
    chat: Annotated[str, typer.Argument(metavar="CHAT", help="The chat's id on the platform.")],
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Send a test message to a chat and report the result."""
    from holdfast.features.channels.cli.actions import send_test

    raise typer.Exit(send_test(_flags(data_dir, config), name, chat))


@channels_app.command("log", short_help="Show messages received and sent.")
def channels_log(
    name: Channel, as_json: AsJson = False, data_dir: DataDir = None, config: Config = None
) -> None:
    """Show the newest 200 events: messages received and sent, with delivery status."""
    from holdfast.features.channels.cli.actions import show_log

    raise typer.Exit(show_log(_flags(data_dir, config), name, form="json" if as_json else "text"))


def send(
    chat: Annotated[
        str,
        typer.Argument(metavar="CHAT", help="CHANNEL:CHAT, such as tg:123, or CHANNEL for its home chat."),
    ],
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="Text, as Markdown. - reads it from stdin.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="File to send, of up to 16 MB.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="Idempotency key. A repeated key sends nothing."),
    ] = None,
    within: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="How long to wait for the delivery. 0 queues the message and returns."
        ),
    ] = 30.0,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Send a message or a file to a chat of a channel.

    Exit codes: 0 delivered, 1 not delivered, 2 usage error, 4 queued. A running server keeps retrying.
    """
    from holdfast.features.channels.cli.sending import ToSend, send_message

    if text == "-":
        text = typer.get_text_stream("stdin").read()
    wanted = ToSend(chat, text or "", file, key or "", within)
    raise typer.Exit(send_message(_flags(data_dir, config), wanted))


def _flags(data_dir: str | None, config: str | None) -> dict[str, object]:
    return {"data_dir": data_dir, "config": config}
