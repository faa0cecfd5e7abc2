"""The commands for servers that misbehave on purpose."""

from typing import Annotated

import typer

chaos_app = typer.Typer(
    help="Run a faulty model server or fake chat platforms, for your tests.",
    short_help="Run a faulty model server or fake chat platforms.",
    no_args_is_help=True,
)


@chaos_app.command("serve", short_help="Serve a faulty model.")
def chaos_serve(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="Port to listen on; 0 picks a free one.")] = 8199,
    script: Annotated[
        str | None, typer.Option(metavar="STEPS", help="Steps for each request; see above.")
    ] = None,
) -> None:
    """Serve a faulty model. Use a scenario as the model name (chaos/stall), or pass a script.

    In a script, separate steps with `;` and attempts with `|`, for example:
    say The answer is; hang | say The answer is 42.
    """
    from holdfast.cli.chaos.serve import serve_until_stopped

    raise typer.Exit(serve_until_stopped(host, port, script=script))


@chaos_app.command("telegram", short_help="Serve a fake Telegram.")
def chaos_telegram(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="Port to listen on; 0 picks a free one.")] = 8198,
    script: Annotated[
        str | None, typer.Option(metavar="LINES", help="Failures to inject; see above.")
    ] = None,
) -> None:
    """Serve a fake Telegram for testing bots: the Bot API on loopback, with a record of each request.

    To act as a user, send requests to /fake/say and /fake/click. A script injects failures, for example:
    sendMessage: retry-after 2 | accept; reset
    """
    from holdfast.cli.chaos.serve import serve_telegram_until_stopped

    raise typer.Exit(serve_telegram_until_stopped(host, port, script=script))


@chaos_app.command("slack", short_help="Serve a fake Slack.")
def chaos_slack(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="Port to listen on; 0 picks a free one.")] = 8197,
    script: Annotated[
        str | None, typer.Option(metavar="LINES", help="Failures to inject; see above.")
    ] = None,
) -> None:
    """Serve a fake Slack for testing apps: Web API and Socket Mode, with a record of each request.

    To act as a user, send requests to /fake/say and /fake/click. A script injects failures, for example:
    chat.postMessage: retry-after 2 | accept; reset
    """
    from holdfast.cli.chaos.serve import serve_slack_until_stopped

    raise typer.Exit(serve_slack_until_stopped(host, port, script=script))


@chaos_app.command("discord", short_help="Serve a fake Discord.")
def chaos_discord(
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="Port to listen on; 0 picks a free one.")] = 8196,
    script: Annotated[
        str | None, typer.Option(metavar="LINES", help="Failures to inject; see above.")
    ] = None,
) -> None:
    """Serve a fake Discord for testing bots: API and gateway on loopback, with a record of each request.

    To act as a user, send requests to /fake/say and /fake/click. A script injects failures, for example:
    createMessage: retry-after 2 | accept; reset
    """
    from holdfast.cli.chaos.serve import serve_discord_until_stopped

    raise typer.Exit(serve_discord_until_stopped(host, port, script=script))
