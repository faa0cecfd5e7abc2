"""The routes under /api/sessions, described."""

from collections.abc import Mapping
from types import MappingProxyType

from holdfast.api import responses as a
from holdfast.api.operation import (
    EVENTS,
    ONCE,
    PAGE,
    RESUME,
    SESSION_ERRORS,
    START_ERRORS,
    WHOLE_ERRORS,
    Operation,
)
from holdfast.server.runs.chat import SessionChatRequest
from holdfast.server.sessions import log as session_log
from holdfast.server.sessions import queue as session_queue
from holdfast.server.sessions import sessions

_ONE = "/api/sessions/{session_id}"
SESSIONS: Mapping[str, Operation] = MappingProxyType(
    {
        "GET /api/sessions": Operation(
            says="Sessions, pinned ones first, then the newest; or those that hold some words.",
            answers={200: a.SessionList},
            errors={400: "invalid_request"},
            query={
                **PAGE,
                "offset": "How many to leave out at the start, at most 10000; `cursor` has no such end.",
                "q": "Words to find in titles and texts; the last may be a beginning.",
                "session_id": "With q: every place in this session alone, the newest first.",
                "archived": "true shows the archived ones instead; a search without it looks at both kinds.",
                "all": "true shows those of plain OpenAI clients too.",
            },
        ),
        "POST /api/sessions": Operation(
            says="A new session.",
            body=sessions.NewSession,
            answers={201: a.MadeSession},
            errors={400: "invalid_request, invalid_json", 409: "session_exists, idempotency_key_conflict"},
            headers=ONCE,
        ),
        f"GET {_ONE}": Operation(says="One session.", answers={200: a.Session}, errors=SESSION_ERRORS),
        f"PATCH {_ONE}": Operation(
            says="Rename, pin, archive, or mark as read.",
            body=sessions.SessionChange,
            answers={200: a.Session},
            errors={400: "invalid_request, invalid_json", **SESSION_ERRORS},
        ),
        f"DELETE {_ONE}": Operation(
            says="Stop its runs, hide it at once, and remove every trace after a minute.",
            scopes=("admin",),
            answers={200: a.DeletedSession},
            errors={
                400: "invalid_request",
                **SESSION_ERRORS,
                503: "runs_go_on, store_unavailable, store_overloaded, shutting_down",
            },
            query={"now": "true removes it at once, for good."},
        ),
        f"POST {_ONE}/undelete": Operation(
            says="Take a deletion back in time.", answers={200: a.Session}, errors=SESSION_ERRORS
        ),
        f"GET {_ONE}/draft": Operation(
            says="What was written and not sent.",
            answers={200: a.DraftText},
            errors={400: "invalid_request"},
        ),
        f"PUT {_ONE}/draft": Operation(
            says="Keep what was written and not sent; an empty text forgets it.",
            body=sessions.Draft,
            answers={200: a.DraftText},
            errors={400: "invalid_request, invalid_json", **SESSION_ERRORS},
            needs_body=True,
        ),
        f"GET {_ONE}/messages": Operation(
            says="The transcript, newest page first, each page in its order.",
            answers={200: a.Entries},
            errors={400: "invalid_request", **SESSION_ERRORS},
            query={"limit": "How many, at most 500.", "before": "`next_before` of the page before."},
        ),
        f"GET {_ONE}/events": Operation(
            says="The whole log of a session as journaled, in order and without end, and news of the list.",
            answers={200: {EVENTS: None, "application/json": a.LogStretch}},
            errors={400: "invalid_request", **SESSION_ERRORS, 429: "too_many_streams"},
            query={
                "after": "The id of the last event that was seen, or ID@EPOCH.",
                "limit": "So many events at once as JSON, in place of the stream; at most 1000.",
                "pace_ms": "What comes within so many milliseconds comes as one piece; at most 1000.",
            },
            headers=RESUME,
        ),
        f"POST {_ONE}/fork": Operation(
            says="A new session with a copy of this one's log, up to `at_seq`.",
            body=session_log.ForkRequest,
            answers={201: a.Forked},
            errors={
                400: "invalid_request, invalid_json",
                **SESSION_ERRORS,
                409: "session_exists, idempotency_key_conflict",
            },
            headers=ONCE,
        ),
        f"POST {_ONE}/rewind": Operation(
            says="What came after `to_seq` no longer counts; the log keeps it.",
            body=session_log.RewindRequest,
            answers={200: a.Session},
            errors={400: "invalid_request, invalid_json", **SESSION_ERRORS, 409: "session_busy"},
            needs_body=True,
        ),
        f"GET {_ONE}/export": Operation(
            says="The session as a file.",
            by_ticket=True,
            answers={200: {"application/json": a.Export, "text/markdown": None}},
            errors={400: "invalid_request", **SESSION_ERRORS},
            query={"format": "json (the default) or md."},
        ),
        f"POST {_ONE}/chat": Operation(
            says="Send a message and wait for its answer.",
            body=SessionChatRequest,
            answers={200: a.ChatAnswer},
            errors={**START_ERRORS, **WHOLE_ERRORS},
            headers=ONCE,
            needs_body=True,
        ),
        f"POST {_ONE}/chat/stream": Operation(
            says="Send a message and follow its answer.",
            body=SessionChatRequest,
            answers={200: {EVENTS: None}},
            errors={**START_ERRORS, 429: "queue_full, too_many_streams"},
            headers=ONCE,
            needs_body=True,
        ),
        f"GET {_ONE}/queue": Operation(
            says="What waits behind the run under way.", answers={200: a.Queue}, errors=SESSION_ERRORS
        ),
        f"PATCH {_ONE}/queue/{{message_id}}": Operation(
            says="Edit a waiting message, move it, or say it to the run under way.",
            body=session_queue.MessageChange,
            answers={200: a.Queue},
            errors={
                400: "invalid_request, invalid_json",
                404: "session_not_found, message_not_found",
                409: "message_not_waiting, run_not_accepting_steer",
            },
        ),
        f"DELETE {_ONE}/queue/{{message_id}}": Operation(
            says="Take a waiting message back.",
            answers={200: a.Queue},
            errors={404: "session_not_found, message_not_found", 409: "message_not_waiting"},
        ),
        f"POST {_ONE}/queue/pause": Operation(
            says="What waits stays where it is.", answers={200: a.Queue}, errors=SESSION_ERRORS
        ),
        f"POST {_ONE}/queue/resume": Operation(
            says="What waits starts runs again.", answers={200: a.Queue}, errors=SESSION_ERRORS
        ),
        f"POST {_ONE}/queue/clear": Operation(
            says="Take all that waits back.", answers={200: a.Queue}, errors=SESSION_ERRORS
        ),
    }
)
