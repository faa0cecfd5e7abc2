"""What each route takes and answers: the description of the API is made of it."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from holdfast.api import server_responses as a
from holdfast.api.operation import (
    EVENTS,
    ONCE,
    SESSION_HEADER,
    START_ERRORS,
    WHOLE_ERRORS,
    Operation,
)
from holdfast.api.run_operations import RUNS
from holdfast.api.scopes import EVERY, NO_KEY
from holdfast.api.session_operations import SESSIONS
from holdfast.server.access.key_routes import NewKey
from holdfast.server.access.signing_in import SignInRequest, TicketRequest
from holdfast.server.openai.chat import ChatRequest
from holdfast.server.openai.responses import ResponsesRequest

_IMAGES: Mapping[str, None] = dict.fromkeys(
    ("application/octet-stream", "image/png", "image/jpeg", "image/gif", "image/webp")
)
OTHERS: Mapping[str, Operation] = MappingProxyType(
    {
        "POST /v1/chat/completions": Operation(
            says=(
                "Chat Completions as the OpenAI API has them; the server's own tools work, and an answer "
                "lists no calls of them: a stream tells them as `hermes.tool.progress`. temperature, the "
                "length and the effort are handed to the model where it takes them. What is not named here "
                "(top_p, stop, seed, n, tools, tool_choice, response_format, logprobs, …) is ignored."
            ),
            body=ChatRequest,
            answers={200: {"application/json": a.ChatCompletion, EVENTS: None}},
            errors={**START_ERRORS, **WHOLE_ERRORS, 404: "response_not_found, model_missing"},
            headers={**ONCE, **SESSION_HEADER},
            needs_body=True,
        ),
        "GET /v1/models": Operation(says="The names that `model` may hold.", answers={200: a.ModelList}),
        "GET /v1/models/{model}": Operation(
            says="One of these.", answers={200: a.Model}, errors={404: "model_not_found"}
        ),
        "POST /v1/responses": Operation(
            says=(
                "Responses as the OpenAI API has them; the server's own tools work, and `output` lists each "
                "call with what it brought, then the answer: there is no call for the client to run. "
                "OpenAI's packages get a call as `mcp_call`, others as `function_call` and its output. One "
                "in the background is answered at once, and goes on when its reader has left. An "
                "`item_reference` in `input` stands for what an earlier response said (an item of its "
                "`output`). temperature, the "
                "length and the effort are handed to the model where it takes them. What is not named here "
                "(top_p, tools, tool_choice, text, truncation, include, …) is ignored."
            ),
            body=ResponsesRequest,
            answers={200: {"application/json": a.Response, EVENTS: None}},
            errors={**START_ERRORS, **WHOLE_ERRORS, 404: "response_not_found, model_missing"},
            headers={**ONCE, **SESSION_HEADER},
            needs_body=True,
        ),
        "GET /v1/responses/{response_id}": Operation(
            says="A response again: as it stands, or its events, from the start or after one of them.",
            answers={200: {"application/json": a.Response, EVENTS: None}},
            errors={400: "invalid_request", 404: "response_not_found", 429: "too_many_streams"},
            query={
                "stream": "true: as events.",
                "starting_after": "The number of the last event that was seen.",
            },
        ),
        "GET /v1/responses/{response_id}/input_items": Operation(
            says=(
                "The items that a response was asked with, the newest first: the history that came with the "
                "request, or that it went on after in a session of its own, and the message."
            ),
            answers={200: a.InputItems},
            errors={400: "invalid_request", 404: "response_not_found"},
            query={
                "order": "desc (the default) or asc.",
                "limit": "How many, at most 100; 20 if it is not said.",
                "after": "`last_id` of the page before.",
            },
        ),
        "POST /v1/responses/{response_id}/cancel": Operation(
            says="Stop a response, and answer once it is over; one that is over already stays as it is.",
            answers={200: a.Response},
            errors={404: "response_not_found", 503: "shutting_down"},
        ),
        "DELETE /v1/responses/{response_id}": Operation(
            says="Do not show a response any more.",
            answers={200: a.DeletedResponse},
            errors={404: "response_not_found"},
        ),
        "GET /api/events": Operation(
            says="News of the session list, without end: for a client that has no session open.",
            answers={200: {EVENTS: None}},
            errors={429: "too_many_streams"},
        ),
        "POST /api/blobs": Operation(
            says="Upload the bytes of an image or file; parts of messages refer to them by the name.",
            raw_body="application/octet-stream",
            answers={201: a.Blob},
            errors={400: "empty_blob, body_cut_off"},
            needs_body=True,
        ),
        "GET /api/blobs/{blob}": Operation(
            says="The bytes again, as an image where `media_type` says so, else as a download.",
            by_ticket=True,
            answers={200: _IMAGES},
            errors={404: "blob_not_found"},
            query={"media_type": "image/png, image/jpeg, image/gif or image/webp."},
        ),
        "POST /api/sign-in": Operation(
            says=(
                "A browser signs in with a key, or with the one-time token of the printed link. It gets a "
                "cookie, which opens nothing alone, and `page`, to be sent as `X-Holdfast-Page` beside it: "
                "browsers send a cookie to every port of a host."
            ),
            scopes=NO_KEY,
            body=SignInRequest,
            answers={200: a.SignedIn},
            errors={400: "invalid_request, invalid_json", 409: "page_outdated"},
            needs_body=True,
        ),
        "POST /api/sign-out": Operation(
            says="A browser signs out.", scopes=EVERY, answers={200: a.SignedOut}
        ),
        "POST /api/sign-in-links": Operation(
            says=(
                "The token of a sign-in link: it signs one browser in with this very key, once and within "
                "ten minutes. The link is the server's address and `/#token=…`."
            ),
            scopes=EVERY,
            answers={201: a.SignInLink},
            errors={409: "no_keys_needed"},
        ),
        "POST /api/tickets": Operation(
            says=(
                "A signed-in browser gets a ticket for an image or a download, which cannot send headers: "
                "one path with its query, for one minute, as the query parameter `ticket`."
            ),
            scopes=EVERY,
            body=TicketRequest,
            answers={201: a.Ticket},
            errors={400: "invalid_request, invalid_json", 409: "no_ticket_needed"},
            needs_body=True,
        ),
        "GET /api/keys": Operation(says="Who has a key.", scopes=("admin",), answers={200: a.KeyList}),
        "POST /api/keys": Operation(
            says="One more key; its secret is in this answer and nowhere else.",
            scopes=("admin",),
            body=NewKey,
            answers={201: a.MadeKey},
            errors={
                400: "invalid_request, invalid_json",
                409: "key_exists, no_keys_needed",
                429: "too_many_keys",
            },
            needs_body=True,
        ),
        "DELETE /api/keys/{name}": Operation(
            says="Revoke a key, and sign out whoever signed in with it.",
            scopes=("admin",),
            answers={200: a.Revoked},
            errors={404: "key_not_found", 409: "key_configured"},
        ),
        "GET /api/targets": Operation(says="The targets and how they are.", answers={200: a.TargetList}),
        "GET /v1/capabilities": Operation(
            scopes=EVERY,
            says="What this server can do, as hermes clients ask.",
            answers={200: a.Capabilities},
        ),
        "GET /health": Operation(
            says="Whether it is alive; needs no key.", scopes=NO_KEY, answers={200: a.Health}
        ),
        "GET /health/detailed": Operation(says="How it is.", scopes=EVERY, answers={200: a.DetailedHealth}),
        "GET /metrics": Operation(
            says="Figures for Prometheus.", scopes=EVERY, answers={200: {"text/plain": None}}
        ),
        "GET /openapi.json": Operation(says="This description.", scopes=EVERY, answers={200: dict[str, Any]}),
        "GET /docs": Operation(says="The same for people.", scopes=EVERY, answers={200: {"text/html": None}}),
    }
)
# Other names for the same routes.
SAME: Mapping[str, str] = MappingProxyType(
    {
        "POST /v1/runs/{run_id}/cancel": "POST /v1/runs/{run_id}/stop",
        "POST /v1/runs/{run_id}/steer": "POST /v1/runs/{run_id}/messages",
        "GET /v1/health": "GET /health",
    }
)


def operation_of(method: str, path: str) -> Operation:
    """The description of a route; a route without one is a mistake that the first request would show."""
    name = f"{method} {path}"
    name = SAME.get(name, name)
    return RUNS.get(name) or SESSIONS.get(name) or OTHERS[name]
