"""The commands for chat platforms, as the program knows them."""

from typing import Annotated

import typer

from holdfast.cli.options import AsJson, Config, DataDir

channels_app = typer.Typer(
    help="See the chat platforms, and let people talk to the agent there.",
    no_args_is_help=True,
)
Channel = Annotated[str, typer.Argument(metavar="NAME", help="The channel's name in the settings.")]
User = Annotated[str, typer.Argument(metavar="USER", help="The platform's id of the person.")]


@channels_app.command("list", short_help="List the channels and whether each works.")
def channels_list(as_json: AsJson = False, data_dir: DataDir = None, config: Config = None) -> None:
    """List the channels: whether each works, who may talk, and what waits to be delivered."""
    from holdfast.cli.channels.channels import list_channels

    raise typer.Exit(list_channels(_flags(data_dir, config), form="json" if as_json else "text"))


@channels_app.command("pair", short_help="Make a code that lets a person in.")
def channels_pair(
    name: Channel, as_json: AsJson = False, data_dir: DataDir = None, config: Config = None
) -> None:
    """Print a code. Whoever sends it to the bot within 10 minutes may talk to the agent and approve.

    A code works once, and all codes are void after 5 wrong tries.
    """
    from holdfast.cli.channels.channels import pair

    raise typer.Exit(pair(_flags(data_dir, config), name, form="json" if as_json else "text"))


@channels_app.command("allow", short_help="Let a person talk to the agent, by id.")
def channels_allow(
    name: Channel,
    user: User,
    approver: Annotated[bool, typer.Option("--approver", help="Let them approve actions, too.")] = False,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Let a person talk to the agent."""
    from holdfast.cli.channels.channels import allow

    role = "approver" if approver else "user"
    raise typer.Exit(allow(_flags(data_dir, config), name, user, role=role))


@channels_app.command("revoke", short_help="Let a person no longer talk to the agent.")
def channels_revoke(name: Channel, user: User, data_dir: DataDir = None, config: Config = None) -> None:
    """Let a person no longer talk to the agent, whatever the settings say."""
    from holdfast.cli.channels.channels import revoke

    raise typer.Exit(revoke(_flags(data_dir, config), name, user))


@channels_app.command("test", short_help="Send a test message to a chat.")
def channels_test(
    name: Channel,
    chat: Annotated[str, typer.Argument(metavar="CHAT", help="The platform's id of the chat.")],
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Send a test message to a chat, and say what became of it."""
    from holdfast.cli.channels.channels import send_test

    raise typer.Exit(send_test(_flags(data_dir, config), name, chat))


@channels_app.command("log", short_help="Show what came in and what was said.")
def channels_log(
    name: Channel, as_json: AsJson = False, data_dir: DataDir = None, config: Config = None
) -> None:
    """Show what came in, what was said, and what became of it: the newest 200 events."""
    from holdfast.cli.channels.channels import show_log

    raise typer.Exit(show_log(_flags(data_dir, config), name, form="json" if as_json else "text"))


def _flags(data_dir: str | None, config: str | None) -> dict[str, object]:
    return {"data_dir": data_dir, "config": config}
