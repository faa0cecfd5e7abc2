"""One operation of the API as data, and what many operations have in common."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, TypeAlias

from holdfast.api.scopes import Scope

EVENTS = "text/event-stream"
_CONVERTER = re.compile(r":\w+}")

Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Tag: TypeAlias = Literal[
    "Runs", "Sessions", "OpenAI-compatible", "AG-UI", "MCP", "Relay", "Memory", "Server", "Triggers"
]


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path: who may call it, what it takes, what it returns, its errors' codes by status.

    The server binds `endpoint` to the function that does it. A response is a type, several as a tuple, one
    for each media type (None for what isn't JSON), or None for an empty body. A key needs one of the
    scopes; without scopes, no key is needed.
    """

    method: Method
    path: str
    endpoint: str
    _: KW_ONLY
    also: tuple[str, ...] = ()  # other paths to the same endpoint
    tag: Tag
    summary: str
    request: Any = None
    raw_request: str = ""  # the media type of a body that isn't JSON
    needs_request: bool = False
    responses: Mapping[int, Any] = field(default_factory=dict[int, Any])
    errors: Mapping[int, str] = field(default_factory=dict[int, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    required: frozenset[str] = frozenset()  # of the query and the headers
    scopes: tuple[Scope, ...] = ("chat",)
    shows_files: bool = False  # from the folder of the run in its path
    any_workspace: str = ""  # why it changes a run or session for keys that can't choose its folder, too
    by_ticket: bool = False  # a browser may use a ticket instead of headers
    by_cookie: bool = False  # a browser may use its cookie alone

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path under which clients reach it, as the router reads them."""
        return (self.path, *self.also)

    @property
    def in_workspace(self) -> bool:
        """Whether it's only for keys that can choose the folder of the run or session in its path."""
        changes_one = self.method != "GET" and ("{run_id}" in self.path or "{session_id}" in self.path)
        return self.shows_files or (changes_one and self.scopes != ("admin",) and not self.any_workspace)

    @property
    def templates(self) -> tuple[str, ...]:
        """The same as OpenAPI writes them."""
        return tuple(_CONVERTER.sub("}", one) for one in self.paths)

    def response_types(self) -> Iterator[Any]:
        """Every type that its JSON responses have."""
        for response in self.responses.values():
            for kind in media_of(response).values():
                yield from kind if isinstance(kind, tuple) else () if kind is None else (kind,)


def media_of(response: Any) -> Mapping[str, Any]:
    """What a response is for each media type."""
    if response is None:
        return {}
    return response if isinstance(response, Mapping) else {"application/json": response}  # pyright: ignore[reportUnknownVariableType]


ONCE = {
    "Idempotency-Key": (
        "A request that is sent twice within 24 hours with the same key and body has one effect and one "
        "response."
    )
}
SESSION_HEADER = {"X-Hermes-Session-Id": "The session to continue; without it the conversation gets its own."}
CHAT_HEADERS = {
    "X-Holdfast-Chat-Id": (
        "The front end's chat id. A turn continues the chat's session with the same history. "
        "`X-OpenWebUI-Chat-Id` works too."
    ),
    "X-Holdfast-User-Id": "The front end's user, with separate sessions. `X-OpenWebUI-User-Id` works too.",
    "X-Holdfast-Task": "Any value marks a task outside the chat, such as a title. It gets no agent tools.",
}
RESUME = {"Last-Event-ID": "The id of the last event that you have seen."}
PAGE = {"limit": "How many, at most 200.", "cursor": "`next_cursor` of the previous page."}
RUN_ERRORS = {404: "run_not_found"}
SESSION_ERRORS = {404: "session_not_found"}
START_ERRORS = {
    400: (
        "invalid_request, invalid_json, json_too_deep, json_too_large, too_many_parts, not_a_data_url, "
        "image_not_fetched, blob_not_found, secret_in_name"
    ),
    403: "workspace_not_allowed",
    404: "response_not_found",
    409: "session_deleted, session_busy, response_rewound, workspace_moved, idempotency_key_conflict",
    429: "queue_full, budget_exhausted, budget_in_use, too_many_requests, upload_quota_reached",
}
RELAY_ERRORS = {
    400: "invalid_request, invalid_json, or what the provider says",
    404: "model_not_found",
    413: "body_too_large",
    415: "unsupported_encoding",
    429: (
        "rate_limited, budget_exhausted, budget_in_use, too_many_requests, with Retry-After, or what the "
        "provider says"
    ),
    502: "connect_failed, dropped, malformed: the kind of the failure",
    503: "overloaded, shutting_down",
    504: "no_first_event, stalled, upload_stalled",
    508: "relay_loop",
}
WHOLE_ERRORS = {
    413: "body_too_large, payload_too_large",
    429: "queue_full, rate_limited, quota_exhausted, budget_exhausted, budget_in_use, too_many_requests",
    502: "the kind of the provider's failure",
    503: "overloaded, store_unavailable, store_overloaded, shutting_down",
}
