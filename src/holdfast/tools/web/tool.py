"""The web tool: public pages as text."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import aiohttp
import msgspec
from msgspec import Meta
from typing_extensions import override
from yarl import URL

from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.policy.tool_names import FETCH_URL
from holdfast.tools.arguments import arguments_hash, parsed, spec_of
from holdfast.tools.functions import ChildOptions, Importable, call_in_child
from holdfast.tools.offload import offload
from holdfast.tools.shell.marker import foreground
from holdfast.tools.shell.output import Shown, shorten
from holdfast.tools.web.addresses import UrlRefused
from holdfast.tools.web.fetch import BODY_BYTES_MAX, Fetcher, Page
from holdfast.values import Action

FETCH_S = 30.0
CONVERT_S = 10.0
_READABLE = Importable("holdfast.tools.web.readable", "readable")  # the child alone imports it
_SHOWN = Shown(head_chars=30_000, tail_chars=10_000)
_TEXT_TYPES = frozenset(
    [
        "application/json",
        "application/xml",
        "application/xhtml+xml",
        "application/javascript",
        "application/yaml",
        "application/x-yaml",
        "application/toml",
        "application/x-sh",
        "application/sql",
        "application/rtf",
    ]
)
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})


class FetchUrlArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A URL to fetch."""

    url: Annotated[str, Meta(min_length=1, max_length=8_000)]
    raw: Annotated[bool, Meta(description="Return HTML instead of text.")] = False


class _Dropped:
    """Discards output."""

    def take(self, data: bytes) -> bool:  # noqa: ARG002 - it is dropped
        return False


class FetchUrl(Tool):
    """Fetches a public page."""

    args_type = FetchUrlArgs
    spec = spec_of(
        FETCH_URL,
        f"Fetch a public web page or text file of up to {BODY_BYTES_MAX // 1024 // 1024} MiB as text.",
        args=FetchUrlArgs,
    )
    # Not read-only: what a URL says can carry away what the model has read.
    traits = ToolTraits(
        idempotent=True, parallel_safe=True, patience_s=FETCH_S + CONVERT_S + 30, place="anywhere"
    )

    def __init__(self, fetcher: Fetcher, *, environment: Mapping[str, str]) -> None:
        self._fetcher = fetcher
        self._environment = environment

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        given = parsed(FetchUrlArgs, args)
        try:
            host = URL(given.url).raw_host or ""
        except ValueError:
            host = ""
        return Action(
            tool=FETCH_URL,
            summary=f"fetch {given.url}",
            host=host,
            digest=arguments_hash(FETCH_URL, args),
        )

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(FetchUrlArgs, args)
        try:
            async with asyncio.timeout(FETCH_S):
                page = await self._fetcher.fetch(given.url, wanted=is_text)
        except TimeoutError:
            return ToolResult(f"{given.url} took longer than {FETCH_S:g} s.", ok=False)
        except UrlRefused as refused:
            return ToolResult(str(refused), ok=False)
        except (aiohttp.ClientError, OSError) as error:
            return ToolResult(f"Couldn't fetch {given.url}: {error or type(error).__name__}", ok=False)
        if not is_text(page.media_type):
            text = f"{page.url} is {page.media_type}, not text, so it wasn't fetched."
            return ToolResult(text, ok=False)
        return await self._shown(page, given, call)

    async def _shown(self, page: Page, given: FetchUrlArgs, call: ToolCall) -> ToolResult:
        text = await offload(page.text)
        if page.media_type in _HTML_TYPES and not given.raw:
            text = await self._readable(text, page.url, call)
        shown, left_out = shorten(text, _SHOWN)
        blob = await call.blobs.put_blob(text.encode("utf-8", "replace")) if left_out else ""
        notes = [f"{page.url}: status {page.status}, {page.media_type}"]
        if page.cut:
            notes.append(f"only the first {BODY_BYTES_MAX:,} bytes were fetched")
        if left_out:
            notes.append(f"{left_out}; the full text is stored as blob {blob}")
        ok = page.status < 400  # noqa: PLR2004 - from here on a status is an error
        return ToolResult(f"[{'; '.join(notes)}]\n{shown}", ok=ok, blob=blob)

    async def _readable(self, html: str, url: str, call: ToolCall) -> str:
        # In a child: a page can be made so that reading its HTML takes for ever.
        answer = await call_in_child(
            _READABLE,
            {"html": html, "base_url": url},
            place=ChildOptions(
                cwd=str(call.workspace),
                environment=self._environment,
                marker=foreground(call.run_id, call.tool_call_id),
                patience_s=CONVERT_S,
            ),
            sink=_Dropped(),
        )
        if isinstance(answer.value, str) and not answer.error:
            return answer.value
        return f"[couldn't convert the page to text; this is its HTML]\n{html}"


def is_text(media_type: str) -> bool:
    """Whether a media type is text that a model can read."""
    return (
        media_type.startswith("text/") or media_type in _TEXT_TYPES or media_type.endswith(("+json", "+xml"))
    )
