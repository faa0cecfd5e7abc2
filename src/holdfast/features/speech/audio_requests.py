"""The request to `/audio/transcriptions`, as OpenAI and its compatible servers take it."""

from typing import Any

import aiohttp

from holdfast.decisions.proxies import proxy_at
from holdfast.models.http import AGENT
from holdfast.targets import Target

ANSWER_BYTES_MAX = 1024 * 1024
PROBLEM_BYTES = 300
GOOD = range(200, 300)


class AudioRefused(Exception):
    """The target can't be reached, or refused the request. The text says why."""


async def post_audio(target: Target, audio: bytes, *, model: str, name: str, media_type: str) -> bytes:
    """Send the audio and return the body of the answer, or its first part. The caller limits the time."""
    form = aiohttp.FormData()
    form.add_field("model", model or target.model)
    form.add_field("response_format", "json")
    form.add_field("file", audio, filename=name, content_type=media_type)
    url = f"{target.base_url.rstrip('/')}/audio/transcriptions"
    connector = aiohttp.TCPConnector(resolver=aiohttp.AsyncResolver(), use_dns_cache=False)
    unlimited = aiohttp.ClientTimeout(total=None)
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=unlimited) as http,
            http.post(url, data=form, allow_redirects=False, **_options(target, url)) as answer,
        ):
            body = await _read(answer)
    except (aiohttp.ClientError, OSError) as error:
        raise AudioRefused(f"{target.name} can't be reached ({type(error).__name__})") from error
    if answer.status not in GOOD:
        said = body[:PROBLEM_BYTES].decode("utf-8", "replace")
        raise AudioRefused(f"{target.name} answered {answer.status}: {said}")
    return body


def _options(target: Target, url: str) -> dict[str, Any]:
    """The headers and the proxy."""
    headers = {"user-agent": AGENT, **target.headers}
    if target.api_key:
        headers["authorization"] = f"Bearer {target.api_key}"
    if (proxy := proxy_at(target.proxy)) is None:
        return {"headers": headers}
    login = {"proxy-authorization": proxy.authorization} if proxy.authorization else {}
    if url.startswith("https:"):
        return {"headers": headers, "proxy": proxy.url, "proxy_headers": login}
    return {"headers": headers | login, "proxy": proxy.url}


async def _read(answer: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in answer.content.iter_any():
        body += piece
        if len(body) > ANSWER_BYTES_MAX:
            break
    return bytes(body)
