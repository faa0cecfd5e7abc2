"""`holdfast chaos`: a bad model server and fake chat platforms for anyone's tests."""

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any

from holdfast.chaos import SCENARIOS, BadScript, serve_chaos
from holdfast.chaos.discord import FakeDiscord
from holdfast.chaos.slack import FakeSlack
from holdfast.chaos.telegram import FakeTelegram

OK, FAILED, MISUSED, INTERRUPTED = 0, 1, 2, 130


def serve_until_stopped(host: str, port: int, *, script: str | None) -> int:
    """Serve until Ctrl-C; the exit code."""
    return _run(serve_chaos(host, port, script=script, on_ready=_say))


def serve_telegram_until_stopped(host: str, port: int, *, script: str | None) -> int:
    """Serve the fake Telegram until Ctrl-C; the exit code."""
    return _run(_serve_telegram(host, port, script or ""))


async def _serve_telegram(host: str, port: int, script: str) -> None:
    telegram = FakeTelegram(host=host, port=port)
    telegram.scripts.add_text(script)
    async with telegram:
        print(f"Fake Telegram on {telegram.url} for a bot with the token {telegram.token}")
        print(f'Write to it: curl {telegram.url}/fake/say -d \'{{"chat": 1, "text": "hello"}}\'', flush=True)
        await asyncio.get_running_loop().create_future()


def serve_slack_until_stopped(host: str, port: int, *, script: str | None) -> int:
    """Serve the fake Slack until Ctrl-C; the exit code."""
    return _run(_serve_slack(host, port, script or ""))


async def _serve_slack(host: str, port: int, script: str) -> None:
    slack = FakeSlack(host=host, port=port)
    slack.scripts.add_text(script)
    async with slack:
        print(f"Fake Slack on {slack.api_url} for an app with the tokens {slack.token} and {slack.app_token}")
        print(f'Write to it: curl {slack.url}/fake/say -d \'{{"chat": "D1", "text": "hello"}}\'', flush=True)
        await asyncio.get_running_loop().create_future()


def serve_discord_until_stopped(host: str, port: int, *, script: str | None) -> int:
    """Serve the fake Discord until Ctrl-C; the exit code."""
    return _run(_serve_discord(host, port, script or ""))


async def _serve_discord(host: str, port: int, script: str) -> None:
    discord = FakeDiscord(host=host, port=port)
    discord.scripts.add_text(script)
    async with discord:
        print(f"Fake Discord on {discord.url} for a bot with the token {discord.token}")
        print(f'Write to it: curl {discord.url}/fake/say -d \'{{"user": 1, "text": "hello"}}\'', flush=True)
        await asyncio.get_running_loop().create_future()


def _run(serving: Coroutine[Any, Any, None]) -> int:
    try:
        asyncio.run(serving)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BadScript as error:
        print(f"holdfast: --script: {error}", file=sys.stderr)
        return MISUSED
    except OSError as error:
        print(f"holdfast: {error}", file=sys.stderr)
        return FAILED
    return OK


def _say(base_url: str) -> None:
    names = ", ".join(f"chaos/{name}" for name in SCENARIOS)
    print(f"Misbehaving model server on {base_url} (Responses, Chat Completions, Anthropic Messages)")
    print(f"Models: {names}", flush=True)
