"""An API operation as data; the scopes of API keys, and the headers and errors that operations share."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, TypeAlias

EVENTS = "text/event-stream"
Scope: TypeAlias = Literal["chat", "approve", "admin", "relay"]

SCOPES: tuple[Scope, ...] = ("chat", "approve", "admin", "relay")
EVERY = SCOPES  # any key can call it
NO_KEY: tuple[Scope, ...] = ()  # no key needed
_CONVERTER = re.compile(r":\w+}")

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Tag: TypeAlias = Literal[
    "Runs", "Sessions", "OpenAI-compatible", "AG-UI", "MCP", "Relay", "Memory", "Server", "Triggers"
]


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path: its scopes, parameters, responses, and error codes by status.

    The server binds `endpoint` to a function. A response is a type, a tuple of types, a mapping from media
    type to type (None for anything but JSON), or None for an empty body. A key needs one of the scopes;
    without scopes, no key is needed.
    """

    method: Method
    path: str
    endpoint: str
    _: KW_ONLY
    also: tuple[str, ...] = ()  # aliases
    tag: Tag
    summary: str
    request: Any = None
    raw_request: str = ""  # the media type of a body that isn't JSON
    needs_request: bool = False
    responses: Mapping[int, Any] = field(default_factory=dict[int, Any])
    errors: Mapping[int, str] = field(default_factory=dict[int, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    required: frozenset[str] = frozenset()  # query parameters and headers
    scopes: tuple[Scope, ...] = ("chat",)
    shows_files: bool = False  # from the folder of the run in the path
    any_workspace: str = ""  # why keys that can't use the folder of the run or session can still call it
    may_relay: bool = False  # the body can be a model call, up to relay.body_bytes_max
    by_ticket: bool = False  # browsers can use a ticket instead of headers
    by_cookie: bool = False  # browsers can use only their cookie

    @property
    def paths(self) -> tuple[str, ...]:
        """Return all paths, in the router's syntax."""
        return (self.path, *self.also)

    @property
    def in_workspace(self) -> bool:
        """Return whether the key must be allowed to use the folder of the run or session in the path."""
        changes_one = self.method != "GET" and ("{run_id}" in self.path or "{session_id}" in self.path)
        return self.shows_files or (changes_one and self.scopes != ("admin",) and not self.any_workspace)

    @property
    def templates(self) -> tuple[str, ...]:
        """Return all paths, in OpenAPI's syntax."""
        return tuple(_CONVERTER.sub("}", one) for one in self.paths)

    def response_types(self) -> Iterator[Any]:
        """Yield the types of its JSON responses."""
        for response in self.responses.values():
            for kind in media_of(response).values():
                yield from kind if isinstance(kind, tuple) else () if kind is None else (kind,)


def media_of(response: Any) -> Mapping[str, Any]:
    """Return the type of a response by media type."""
    if response is None:
        return {}
    return response if isinstance(response, Mapping) else {"application/json": response}  # pyright: ignore[reportUnknownVariableType]


ONCE = {
    "Idempotency-Key": (
        "Makes retries safe: requests with the same key and body within 24 hours take effect once and get "
        "the same response."
    )
}
SESSION_HEADER = {"X-Hermes-Session-Id": "Session to continue. Default: a new one for each conversation."}
CHAT_HEADERS = {
    "X-Holdfast-Chat-Id": (
        "The front end's chat id. A turn continues the chat's session that has the same history. "
        "`X-OpenWebUI-Chat-Id` also works."
    ),
    "X-Holdfast-User-Id": "The front end's user, with separate sessions. `X-OpenWebUI-User-Id` also works.",
    "X-Holdfast-Task": "Any value marks a task outside the chat, such as a title. It gets no agent tools.",
}
PROMPT_HEADER = {
    "X-Holdfast-Prompt": (
        "`none` leaves out the server's base prompt and its description of the environment. By default, both "
        "precede your own system message."
    )
}
RESUME = {"Last-Event-ID": "The id of the last event you received."}
PAGE = {"limit": "Page size, up to 200.", "cursor": "`next_cursor` of the previous page."}
RUN_ERRORS = {404: "run_not_found"}
SESSION_ERRORS = {404: "session_not_found"}
START_ERRORS = {
    400: (
        "invalid_request, invalid_json, json_too_deep, json_too_large, too_many_parts, not_a_data_url, "
        "image_not_fetched, blob_not_found, secret_in_name"
    ),
    403: "workspace_not_allowed",
    404: "response_not_found, target_not_found",
    409: "session_deleted, session_busy, response_rewound, workspace_moved, idempotency_key_conflict",
    429: "queue_full, budget_exhausted, budget_in_use, too_many_requests, upload_quota_reached",
}
WHOLE_ERRORS = {
    413: "body_too_large, payload_too_large",
    429: "queue_full, rate_limited, quota_exhausted, budget_exhausted, budget_in_use, too_many_requests",
    502: "the kind of the provider's failure",
    503: "overloaded, store_unavailable, store_overloaded, shutting_down",
}
