"""`holdfast chaos`: a bad model server and fake chat platforms for anyone's tests."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.chaos import SCENARIOS, BadScript, serve_chaos
from holdfast.chaos.discord import FakeDiscord
from holdfast.chaos.slack import FakeSlack
from holdfast.chaos.telegram import FakeTelegram
from holdfast.cli.terminal.output import echo, echo_error

OK, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130


def serve_until_stopped(host: str, port: int, *, script: str | None) -> int:
    """Serve until Ctrl-C; the exit code."""
    return _run(serve_chaos(host, port, script=script, on_ready=_say))


def serve_telegram_until_stopped(host: str, port: int, *, script: str | None) -> int:
    """Serve the fake Telegram until Ctrl-C; the exit code."""
    telegram = FakeTelegram(host=host, port=port)

    def about() -> str:
        return f"Fake Telegram on {telegram.url} for a bot with the token {telegram.token}"

    return _run(_serve(telegram, script or "", about, person='"chat": 1'))


def serve_slack_until_stopped(host: str, port: int, *, script: str | None) -> int:
    """Serve the fake Slack until Ctrl-C; the exit code."""
    slack = FakeSlack(host=host, port=port)

    def about() -> str:
        return (
            f"Fake Slack on {slack.api_url} for an app with the tokens {slack.token} and {slack.app_token}, "
            f"and the signing secret {slack.signing_secret}"
        )

    return _run(_serve(slack, script or "", about, person='"chat": "D1"'))


def serve_discord_until_stopped(host: str, port: int, *, script: str | None) -> int:
    """Serve the fake Discord until Ctrl-C; the exit code."""
    discord = FakeDiscord(host=host, port=port)

    def about() -> str:
        return f"Fake Discord on {discord.url} for a bot with the token {discord.token}"

    return _run(_serve(discord, script or "", about, person='"user": 1'))


async def _serve(
    fake: FakeTelegram | FakeSlack | FakeDiscord, script: str, about: Callable[[], str], *, person: str
) -> None:
    """Serve a fake until cancelled; what it is about is known once it has its address."""
    fake.scripts.add_text(script)
    async with fake:
        echo(about())
        echo(f'Write to it: curl {fake.url}/fake/say -d \'{{{person}, "text": "hello"}}\'')
        await asyncio.get_running_loop().create_future()


def _run(serving: Coroutine[Any, Any, None]) -> int:
    try:
        asyncio.run(serving)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BadScript as error:
        echo_error(f"holdfast: --script: {error}")
        return MISUSED
    except OSError as error:
        echo_error(f"holdfast: {error}")
        return FAILED
    return OK


def _say(base_url: str) -> None:
    names = ", ".join(f"chaos/{name}" for name in SCENARIOS)
    echo(f"Faulty model server on {base_url} (Responses, Chat Completions, Anthropic Messages)")
    echo(f"Models: {names}")
