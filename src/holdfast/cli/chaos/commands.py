"""The commands for servers that misbehave on purpose."""

from typing import Annotated

import typer

chaos_app = typer.Typer(
    help="Servers that misbehave on purpose, for your tests: a model and chat platforms.",
    short_help="A model server and fake chat platforms that misbehave, for tests.",
    no_args_is_help=True,
)


@chaos_app.command("serve", short_help="Serve a model that misbehaves.")
def chaos_serve(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="The port to listen on; 0 picks a free one.")] = 8199,
    script: Annotated[
        str | None, typer.Option(metavar="STEPS", help="What to do with each request; see above.")
    ] = None,
) -> None:
    """Serve a model that misbehaves: use a scenario as the model name (chaos/stall), or give a script.

    Separate the steps of a script with `;` and attempts with `|`, for example:
    say The answer is; hang | say The answer is 42.
    """
    from holdfast.cli.chaos.serve import serve_until_stopped

    raise typer.Exit(serve_until_stopped(host, port, script=script))


@chaos_app.command("telegram", short_help="Serve a fake Telegram.")
def chaos_telegram(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="The port to listen on; 0 picks a free one.")] = 8198,
    script: Annotated[str | None, typer.Option(metavar="LINES", help="What goes wrong; see above.")] = None,
) -> None:
    """Serve a fake Telegram for tests of bots: the Bot API on loopback, with a record of what was sent.

    You play its users with requests to /fake/say and /fake/click. A script says what goes wrong, for example:
    sendMessage: retry-after 2 | accept; reset
    """
    from holdfast.cli.chaos.serve import serve_telegram_until_stopped

    raise typer.Exit(serve_telegram_until_stopped(host, port, script=script))


@chaos_app.command("slack", short_help="Serve a fake Slack.")
def chaos_slack(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="The port to listen on; 0 picks a free one.")] = 8197,
    script: Annotated[str | None, typer.Option(metavar="LINES", help="What goes wrong; see above.")] = None,
) -> None:
    """Serve a fake Slack for tests of apps: Web API and Socket Mode, with a record of what was sent.

    You play its people with requests to /fake/say and /fake/click. A script says what goes wrong:
    chat.postMessage: retry-after 2 | accept; reset
    """
    from holdfast.cli.chaos.serve import serve_slack_until_stopped

    raise typer.Exit(serve_slack_until_stopped(host, port, script=script))


@chaos_app.command("discord", short_help="Serve a fake Discord.")
def chaos_discord(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="The port to listen on; 0 picks a free one.")] = 8196,
    script: Annotated[str | None, typer.Option(metavar="LINES", help="What goes wrong; see above.")] = None,
) -> None:
    """Serve a fake Discord for tests of bots: API and gateway on loopback, with a record of what was sent.

    You play its users with requests to /fake/say and /fake/click. A script says what goes wrong, for example:
    createMessage: retry-after 2 | accept; reset
    """
    from holdfast.cli.chaos.serve import serve_discord_until_stopped

    raise typer.Exit(serve_discord_until_stopped(host, port, script=script))
