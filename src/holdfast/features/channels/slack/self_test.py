"""Calls the server's own public address as Slack would, to find out whether Slack's calls can arrive.

It takes the same way: name, certificate, proxy, path, signature, and the server that holds the channel. Some
networks don't let a machine reach itself by its public address, so a failure is no proof.
"""

import asyncio
from secrets import token_hex

import aiohttp
import msgspec

from holdfast.decisions.hook_signatures import slack_signature
from holdfast.features.channels.messages import bounded_body, failure_text

ANSWER_S = 10.0
BODY_BYTES_MAX = 64 * 1024
OK, REFUSED, NOT_FOUND, NOT_NOW = 200, 401, 404, 503
_WHY = {
    REFUSED: "the server at this URL has a different signing secret, or no such channel",
    NOT_FOUND: "the server at this URL isn't Holdfast",
    NOT_NOW: "the server at this URL isn't running the channel",
}


class _Answer(msgspec.Struct):
    challenge: str = ""


async def why_unreachable(url: str, *, secret: str, now_s: int) -> str:
    """Why a call to this address doesn't arrive at the channel; empty if it does."""
    wanted, at = token_hex(16), str(now_s)
    body = msgspec.json.encode({"type": "url_verification", "challenge": wanted})
    headers = {
        "Content-Type": "application/json",
        "X-Slack-Request-Timestamp": at,
        "X-Slack-Signature": slack_signature(secret, at, body),
    }
    try:
        async with (
            asyncio.timeout(ANSWER_S),
            aiohttp.ClientSession() as session,
            session.post(url, data=body, headers=headers, allow_redirects=False) as response,
        ):
            answer = await bounded_body(response, bytes_max=BODY_BYTES_MAX)
    except TimeoutError:
        return f"no response within {ANSWER_S:g} s"
    except (aiohttp.ClientError, OSError, ValueError) as error:
        return failure_text(error)
    if response.status != OK:
        why = _WHY.get(response.status, "")
        return f"HTTP {response.status}" + (f", {why}" if why else "")
    return "" if _challenge(answer) == wanted else "the server at this URL isn't Holdfast"


def _challenge(answer: bytes) -> str:
    try:
        return msgspec.json.decode(answer, type=_Answer).challenge
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return ""
