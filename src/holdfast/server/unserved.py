"""Paths that this server hasn't got: what they are for, and what was probably meant."""

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from holdfast.api.operations import OPERATIONS
from holdfast.server.problems import Problem

# Unsupported parts of OpenAI's and Anthropic's APIs, by the first segment after /v1.
UNSERVED: Mapping[str, str] = MappingProxyType(
    {
        "assistants": "assistants; use /v1/responses",
        "audio": "speech and transcription",
        "batches": "batches",
        "complete": "Anthropic's older completions; use /v1/messages",
        "containers": "containers",
        "evals": "evaluations",
        "files": "files; upload attachments with POST /api/blobs",
        "fine_tuning": "fine-tuning",
        "images": "image generation",
        "moderations": "moderation",
        "organization": "administration",
        "realtime": "realtime sessions",
        "threads": "threads; use /v1/conversations",
        "uploads": "uploads; upload attachments with POST /api/blobs",
        "vector_stores": "vector stores",
        "videos": "video generation",
    }
)
_UNSERVED_BELOW: Mapping[str, str] = MappingProxyType(
    {
        "/v1/chat/completions/": "stored chat completions; use /v1/responses",
        "/v1/conversations/": (
            "changes to single items, because a conversation is a log. Add items as 'input' of a response "
            "with this conversation; remove the newest with POST /api/sessions/{session_id}/rewind"
        ),
        "/v1/messages/batches": "batches of messages",
    }
)
_PARAMETER = re.compile(r"\\\{[^/]*\\\}")
_VERSIONS = re.compile("^(/v1)*")


def no_such_route(path: str) -> Problem:
    """The response for an unknown path."""
    return Problem(404, f"Route not found. {_help(path)}".rstrip(), code="not_found")


def not_of_this_route(path: str) -> str:
    """Return the unsupported purpose of a path that supports only other methods; empty if unknown."""
    below = next((what for start, what in _UNSERVED_BELOW.items() if path.startswith(start)), "")
    return f"This server doesn't serve {below}" if below else ""


def _help(path: str) -> str:
    meant = _VERSIONS.sub("/v1", path.rstrip("/") or "/")
    if meant != path and _served().fullmatch(meant):
        return f"Did you mean {meant}? Your client's base URL must end with /v1, once, without a slash"
    if said := not_of_this_route(path):
        return said
    word = path.removeprefix("/v1/").partition("/")[0] if path.startswith("/v1/") else ""
    return f"This server doesn't serve {UNSERVED[word]}" if word in UNSERVED else ""


@cache
def _served() -> re.Pattern[str]:
    """Matches the paths of all operations."""
    templates = (template for one in OPERATIONS for template in one.templates)
    return re.compile("|".join(_PARAMETER.sub("[^/]+", re.escape(template)) for template in templates))
