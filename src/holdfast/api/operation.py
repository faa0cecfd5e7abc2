"""What a route takes and answers, as data, and what many routes have of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.api.scopes import Scope

EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One route: what it is for, what it takes, what it answers, and the codes of its errors by status.

    An answer is a type, several as a tuple, one for each media type (None for what is no JSON), or None for
    nothing at all. A key needs one of the scopes; where there are none, nobody needs a key.
    """

    says: str
    body: Any = None
    raw_body: str = ""  # the media type of a body that is no JSON
    answers: Mapping[int, Any] = field(default_factory=dict[int, Any])
    errors: Mapping[int, str] = field(default_factory=dict[int, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    needs_body: bool = False
    scopes: tuple[Scope, ...] = ("chat",)
    by_ticket: bool = False  # whether a browser may ask with a ticket in place of a header


ONCE = {"Idempotency-Key": "Sent twice with the same body within 24 hours, it has one effect and one answer."}
SESSION_HEADER = {"X-Hermes-Session-Id": "The session to go on in; without it the conversation gets its own."}
RESUME = {"Last-Event-ID": "The id of the last event that was seen."}
PAGE = {"limit": "How many, at most 200.", "cursor": "`next_cursor` of the page before."}
RUN_ERRORS = {404: "run_not_found"}
SESSION_ERRORS = {404: "session_not_found"}
START_ERRORS = {
    400: (
        "invalid_request, invalid_json, json_too_deep, json_too_large, too_many_parts, not_a_data_url, "
        "blob_not_found"
    ),
    404: "response_not_found",
    409: "session_deleted, session_busy, response_rewound, idempotency_key_conflict",
    429: "queue_full",
}
WHOLE_ERRORS = {
    413: "body_too_large, payload_too_large",
    429: "queue_full, rate_limited, quota_exhausted",
    502: "the kind of the provider's failure",
    503: "overloaded, store_unavailable, store_overloaded, shutting_down",
}
