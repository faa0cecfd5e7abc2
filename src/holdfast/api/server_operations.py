"""The operations for plain OpenAI clients, for the page, and on the server itself."""

from collections.abc import Iterable
from typing import Any

from holdfast.api import access, nodes, openai, quarantine, server, usage
from holdfast.api.operation import (
    CHAT_HEADERS,
    EVENTS,
    ONCE,
    RELAY_ERRORS,
    SESSION_ERRORS,
    SESSION_HEADER,
    START_ERRORS,
    WHOLE_ERRORS,
    Operation,
)
from holdfast.api.scopes import EVERY, NO_KEY

_IMAGES: dict[str, None] = dict.fromkeys(
    ("application/octet-stream", "image/png", "image/jpeg", "image/gif", "image/webp")
)

OPENAI_ERRORS = {
    **START_ERRORS,
    **WHOLE_ERRORS,
    400: (
        f"{START_ERRORS[400]}, unsupported_parameter, tool_name_taken, tool_result_missing, "
        "tool_result_unknown, tool_result_duplicate"
    ),
}
IMAGES = (
    "Images are data: URLs, or https addresses: the server fetches these from public addresses, at most 20 "
    "in a request and 5 MiB each."
)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


SERVER_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        "/api/events",
        "log.list_changes",
        tag="Server",
        summary="Changes of the session list, without end, for a client that has no session open.",
        responses={200: {EVENTS: None}},
        errors={429: "too_many_streams"},
    ),
    Operation(
        "POST",
        "/api/blobs",
        "blobs.upload",
        tag="Server",
        summary=(
            "Upload the bytes of an image or file of any type; parts of messages refer to them by the name. "
            "The model is shown images, PDFs and texts up to 32 KiB. Anything else is saved in the run's "
            "workspace, under `attachments/`, before the model is told its path; `attachments.saved` in the "
            "log says where it is, or why it couldn't be saved."
        ),
        raw_request="application/octet-stream",
        responses={201: server.BlobStored},
        errors={400: "empty_blob, body_cut_off", 429: "upload_quota_reached"},
        needs_request=True,
    ),
    Operation(
        "GET",
        "/api/blobs/{blob}",
        "blobs.download",
        tag="Server",
        summary="The bytes, as an image if `media_type` says so, otherwise as a download.",
        by_ticket=True,
        responses={200: _IMAGES},
        errors={404: "blob_not_found"},
        query={"media_type": "image/png, image/jpeg, image/gif or image/webp."},
    ),
    Operation(
        "POST",
        "/api/sign-in",
        "browsers.sign_in",
        tag="Server",
        summary=(
            "A browser signs in with a key, or with the one-time token of the printed link. It gets a "
            "cookie, which opens nothing alone, and `page`, to be sent as `X-Holdfast-Page` beside it: "
            "browsers send a cookie to every port of a host."
        ),
        scopes=NO_KEY,
        request=access.SignInRequest,
        responses={200: access.SignedIn},
        errors={400: "invalid_request, invalid_json", 409: "page_outdated"},
        needs_request=True,
    ),
    Operation(
        "POST",
        "/api/sign-out",
        "browsers.sign_out",
        tag="Server",
        summary="A browser signs out.",
        scopes=EVERY,
        responses={200: access.SignedOut},
    ),
    Operation(
        "POST",
        "/api/sign-in-links",
        "browsers.link",
        tag="Server",
        summary=(
            "The token of a sign-in link: it signs one browser in with this very key, once and within "
            "ten minutes. The link is the server's address and `/#token=…`."
        ),
        scopes=EVERY,
        responses={201: access.SignInLink},
        errors={409: "no_keys_needed"},
    ),
    Operation(
        "POST",
        "/api/tickets",
        "browsers.ticket",
        tag="Server",
        summary=(
            "A signed-in browser gets a ticket for an image or a download, which cannot send headers: "
            "one path with its query, for one minute, as the query parameter `ticket`."
        ),
        scopes=EVERY,
        request=access.TicketRequest,
        responses={201: access.TicketIssued},
        errors={400: "invalid_request, invalid_json", 409: "no_ticket_needed"},
        needs_request=True,
    ),
    Operation(
        "GET",
        "/api/keys",
        "keys.list",
        tag="Server",
        summary="All keys, without their secrets.",
        scopes=("admin",),
        responses={200: access.KeyList},
    ),
    Operation(
        "POST",
        "/api/keys",
        "keys.add",
        tag="Server",
        summary="Create a key; its secret is in this response and nowhere else.",
        scopes=("admin",),
        request=access.CreateKeyRequest,
        responses={201: access.KeyMade},
        errors={
            400: "invalid_request, invalid_json, secret_in_name",
            409: "key_exists, no_keys_needed",
            429: "too_many_keys",
        },
        needs_request=True,
    ),
    Operation(
        "DELETE",
        "/api/keys/{name}",
        "keys.revoke",
        tag="Server",
        summary="Revoke a key, and sign out every browser that signed in with it.",
        scopes=("admin",),
        responses={200: access.KeyRevoked},
        errors={404: "key_not_found", 409: "key_configured"},
    ),
    Operation(
        "GET",
        "/api/quarantine",
        "quarantine.list",
        tag="Server",
        summary="What commands changed without approval and the sandbox took away, newest first.",
        scopes=("approve",),
        responses={200: quarantine.QuarantineList},
    ),
    Operation(
        "POST",
        "/api/quarantine/{file_id}/restore",
        "quarantine.restore",
        tag="Server",
        summary="Put a file back where it was. What is there now takes its place, so nothing is lost.",
        scopes=("approve",),
        responses={200: quarantine.QuarantineRestored},
        errors={403: "workspace_not_allowed", 404: "not_in_quarantine", 409: "file_unusable"},
    ),
    Operation(
        "DELETE",
        "/api/quarantine/{file_id}",
        "quarantine.delete",
        tag="Server",
        summary="Delete a file in quarantine for good.",
        scopes=("approve",),
        responses={200: quarantine.QuarantineDeleted},
        errors={403: "workspace_not_allowed", 404: "not_in_quarantine", 409: "file_unusable"},
    ),
    Operation(
        "POST",
        "/v1/chat/completions",
        "openai.complete",
        tag="OpenAI-compatible",
        summary=(
            "OpenAI's Chat Completions. The server's own tools work. Their calls aren't in the answer; a "
            "stream reports them as `hermes.tool.progress`. temperature, the length, the effort and "
            "response_format are passed to the model. If an answer doesn't match response_format, the model "
            "is asked once more, and then the run fails with `output_invalid`. With response_format, a "
            "stream sends the answer in one piece. `tools` are functions that you run, in addition to the "
            "agent's own; one with the name of an agent's tool replaces it. If the model calls one, the "
            "response ends with `tool_calls`, and the run waits (`waiting_for_client`). To continue the same "
            "run, send the messages again with the results of all calls. Results are accepted once, from the "
            "same API key. `tool_choice` applies to the next "
            "answer. top_p, stop, seed, the penalties, logit_bias, verbosity and parallel_tool_calls are "
            "passed to models that support them. A field that can't be honoured is a 400 that names it, such "
            f"as `n` above 1, `logprobs`, {_listed(openai.CHAT_REFUSED)}. These fields are accepted and "
            f"change nothing: {_listed(openai.CHAT_HARMLESS)}. Fields that aren't known are ignored, and the "
            f"header `X-Holdfast-Ignored` names them. {IMAGES}"
        ),
        request=openai.ChatRequest,
        responses={200: {"application/json": openai.ChatCompletion, EVENTS: None}},
        errors={**OPENAI_ERRORS, 404: "response_not_found, model_not_found, model_missing"},
        headers={**ONCE, **SESSION_HEADER, **CHAT_HEADERS},
        needs_request=True,
        scopes=("chat", "relay"),
    ),
    Operation(
        "POST",
        "/v1/messages",
        "relay.messages",
        tag="Relay",
        summary=(
            "Anthropic Messages, passed on to a target with Holdfast's deadlines and retries. A `model` that "
            "isn't known goes to the first target that speaks this wire, or else to the first target. The "
            "body passes as it is; only the model's name changes. Errors have Anthropic's shape. Names "
            "that run the agent get 404 `route_not_served`."
        ),
        request=server.MessagesRequest,
        responses={200: {"application/json": dict[str, Any], EVENTS: None}},
        errors={**RELAY_ERRORS, 404: "model_not_found, route_not_served"},
        query={"beta": "Passed on like every other parameter."},
        needs_request=True,
        scopes=("relay",),
    ),
    Operation(
        "POST",
        "/v1/messages/count_tokens",
        "relay.count_tokens",
        tag="Relay",
        summary=(
            "The number of input tokens, as the provider counts them. If the target speaks another wire, it "
            "is Holdfast's estimate, and the response has the header `X-Holdfast-Estimate`."
        ),
        request=server.MessagesRequest,
        responses={200: dict[str, Any]},
        errors={**RELAY_ERRORS, 404: "model_not_found, route_not_served"},
        needs_request=True,
        scopes=("relay",),
    ),
    Operation(
        "POST",
        "/v1/embeddings",
        "relay.plain",
        also=("/v1/completions",),
        tag="Relay",
        summary=(
            "Embeddings, and at /v1/completions the older completions without messages: passed on to the "
            "target of a relayed model, with Holdfast's deadlines and retries. The body passes as it is; "
            "only the model's name changes. Agents have neither route, and nor do targets that speak "
            "Anthropic's protocol. If the provider hasn't got the route, you get its own error."
        ),
        request=server.RelayBody,
        responses={200: {"application/json": dict[str, Any], EVENTS: None}},
        errors={**RELAY_ERRORS, 404: "model_not_found, route_not_served"},
        needs_request=True,
        scopes=("relay",),
    ),
    Operation(
        "GET",
        "/v1/models",
        "openai.models",
        tag="OpenAI-compatible",
        summary=(
            "The names that `model` accepts: agents (owned by `holdfast`) and relayed models (owned by "
            "`holdfast-relay`). With the header `anthropic-version`, in Anthropic's shape."
        ),
        responses={200: (openai.ModelList, openai.AnthropicModelList)},
        scopes=("chat", "relay"),
    ),
    Operation(
        "GET",
        "/v1/models/{model:path}",
        "openai.model",
        tag="OpenAI-compatible",
        summary="One model.",
        responses={200: (openai.ModelShown, openai.AnthropicModel)},
        scopes=("chat", "relay"),
        errors={404: "model_not_found"},
    ),
    Operation(
        "POST",
        "/v1/responses",
        "responses.create",
        tag="OpenAI-compatible",
        summary=(
            "OpenAI's Responses. The server's own tools work. `output` lists each of their calls as an "
            "`mcp_call` with its result, and then the answer. (Clients that send an X-Hermes header get a "
            "`function_call` and its output instead.) `tools` are functions that you run, in addition to the "
            "agent's own. If the model calls one, `output` ends with `function_call` items, and the run "
            "waits (`waiting_for_client`). To continue the same run in a new response, send the results of "
            "all calls as `function_call_output` items. A background response returns at once and continues "
            "without a reader. An `item_reference` in `input` refers to an item of an earlier response's "
            "`output`. temperature, the length, the effort, top_p, text and parallel_tool_calls are passed "
            "to models that support them. A field that can't be honoured is a 400 that names it, such as "
            f"`top_logprobs`, {_listed(openai.RESPONSES_REFUSED)}. These fields are accepted and change "
            f"nothing: include (except for log probabilities), {_listed(openai.RESPONSES_HARMLESS)}. Fields "
            f"that aren't known are ignored, and the header `X-Holdfast-Ignored` names them. {IMAGES}"
        ),
        request=openai.ResponsesRequest,
        responses={200: {"application/json": openai.ResponseShown, EVENTS: None}},
        errors={**OPENAI_ERRORS, 404: "response_not_found, model_not_found, model_missing"},
        headers={**ONCE, **SESSION_HEADER},
        needs_request=True,
        scopes=("chat", "relay"),
    ),
    Operation(
        "POST",
        "/v1/responses/input_tokens",
        "responses.input_tokens",
        tag="OpenAI-compatible",
        summary=(
            "How many input tokens a response would have. For an agent it is Holdfast's estimate, which "
            "includes the agent's own instructions and tools, and the response has the header "
            "`X-Holdfast-Estimate`. For a relayed model whose target speaks Responses it is the provider's "
            "count."
        ),
        request=openai.InputTokensRequest,
        responses={200: openai.InputTokens},
        errors={400: "invalid_request, invalid_json", 404: "response_not_found, model_not_found"},
        scopes=("chat", "relay"),
    ),
    Operation(
        "POST",
        "/v1/responses/compact",
        "responses.compact",
        tag="OpenAI-compatible",
        summary=(
            "Summarize a conversation. `output` has its user messages and a `compaction` item, to be sent "
            "as the first `input` items of the next response. The conversation is `input`, or what "
            "`previous_response_id` ends with, or both. `instructions` say what the summary must keep. For a "
            "relayed model whose target speaks Responses, the provider does it."
        ),
        request=openai.CompactResponseRequest,
        responses={200: openai.CompactedResponse},
        errors={**OPENAI_ERRORS, 404: "response_not_found, model_not_found, route_not_served"},
        headers=ONCE,
        needs_request=True,
        scopes=("chat", "relay"),
    ),
    Operation(
        "POST",
        "/v1/conversations",
        "conversations.create",
        tag="OpenAI-compatible",
        summary=(
            "Make a conversation: a session whose id `conversation` of a response accepts. Items come with "
            "responses, so `items` must be empty."
        ),
        request=openai.CreateConversationRequest,
        responses={200: openai.ConversationShown},
        errors={400: "invalid_request, invalid_json, unsupported_parameter", 409: "idempotency_key_conflict"},
        headers=ONCE,
    ),
    Operation(
        "GET",
        "/v1/conversations/{session_id}",
        "conversations.show",
        tag="OpenAI-compatible",
        summary="A conversation; any session is one.",
        responses={200: openai.ConversationShown},
        errors=SESSION_ERRORS,
    ),
    Operation(
        "POST",
        "/v1/conversations/{session_id}",
        "conversations.change",
        tag="OpenAI-compatible",
        any_workspace="It describes the conversation to its client.",
        summary="Replace the metadata of a conversation.",
        request=openai.ChangeConversationRequest,
        responses={200: openai.ConversationShown},
        errors={400: "invalid_request, invalid_json", **SESSION_ERRORS},
        needs_request=True,
    ),
    Operation(
        "DELETE",
        "/v1/conversations/{session_id}",
        "conversations.delete",
        tag="OpenAI-compatible",
        scopes=("admin",),
        summary="Delete the session; its runs are stopped, and it can be undeleted for a while.",
        responses={200: openai.DeletedConversation},
        errors=SESSION_ERRORS,
    ),
    Operation(
        "GET",
        "/v1/conversations/{session_id}/items",
        "conversations.items",
        tag="OpenAI-compatible",
        summary="What was said in a conversation, newest first, as items of responses.",
        responses={200: openai.InputItems},
        errors={400: "invalid_request", **SESSION_ERRORS},
        query={
            "order": "desc (the default) or asc.",
            "limit": "How many, at most 100; 20 by default.",
            "after": "`last_id` of the previous page.",
        },
    ),
    Operation(
        "GET",
        "/v1/conversations/{session_id}/items/{item_id}",
        "conversations.item",
        tag="OpenAI-compatible",
        summary="One item.",
        responses={200: dict[str, Any]},
        errors={404: "session_not_found, item_not_found"},
    ),
    Operation(
        "GET",
        "/v1/responses/{response_id}",
        "responses.show",
        tag="OpenAI-compatible",
        summary="A response in its current state, or its events, from the start or after one of them.",
        responses={200: {"application/json": openai.ResponseShown, EVENTS: None}},
        errors={400: "invalid_request", 404: "response_not_found", 429: "too_many_streams"},
        query={
            "stream": "true: as events.",
            "starting_after": "The number of the last event that you have seen.",
        },
    ),
    Operation(
        "DELETE",
        "/v1/responses/{response_id}",
        "responses.delete",
        tag="OpenAI-compatible",
        summary="Hide a response for good.",
        responses={200: openai.DeletedResponse},
        errors={403: "workspace_not_allowed", 404: "response_not_found"},
    ),
    Operation(
        "GET",
        "/v1/responses/{response_id}/input_items",
        "responses.input_items",
        tag="OpenAI-compatible",
        summary=(
            "The input items of a response, newest first: the history from the request or from the session "
            "that it continues, and the message."
        ),
        responses={200: openai.InputItems},
        errors={400: "invalid_request", 404: "response_not_found"},
        query={
            "order": "desc (the default) or asc.",
            "limit": "How many, at most 100; 20 by default.",
            "after": "`last_id` of the previous page.",
        },
    ),
    Operation(
        "POST",
        "/v1/responses/{response_id}/cancel",
        "responses.cancel",
        tag="OpenAI-compatible",
        summary="Stop a response and return it once it has ended; one that has already ended is unchanged.",
        responses={200: openai.ResponseShown},
        errors={404: "response_not_found", 503: "shutting_down"},
    ),
    Operation(
        "GET",
        "/api/targets",
        "targets.list",
        tag="Server",
        summary="The targets: their health, what they're doing, and how long Holdfast waits for them.",
        responses={200: server.TargetList},
    ),
    Operation(
        "POST",
        "/api/targets/{name}/try",
        "targets.try_one",
        tag="Server",
        summary=(
            "Make one tiny real call to a target and say how it went, within 25 seconds. The call passes a "
            "closed gate and an open breaker; if the target answers, both open for everyone. It costs a few "
            "tokens. While one is under way, another is refused."
        ),
        scopes=("admin",),
        responses={200: server.TargetTried},
        errors={404: "target_not_found", 409: "already_trying"},
    ),
    Operation(
        "GET",
        "/api/usage",
        "usage.show",
        tag="Server",
        summary=(
            "What runs and relayed calls used: tokens, and cost where the price is known. The rows are one "
            "for each day, target, session or key, without empty ones; at most 1000, the costliest first. "
            "`budgets` has the keys with a budget, and what they used today."
        ),
        scopes=("admin",),
        responses={200: usage.UsageSummary},
        errors={400: "invalid_request"},
        query={
            "by": "day (the default), target, session or key.",
            "from": "The first day (UTC), as 2026-01-31; by default, 29 days before `to`.",
            "to": "The last day (UTC); by default, today. At most 366 days.",
        },
    ),
    Operation(
        "GET",
        "/api/nodes",
        "nodes.list",
        tag="Server",
        summary=(
            "The servers that share the store, with how many sessions each works on; only this one, without "
            "a name, if the store is an SQLite file."
        ),
        scopes=("admin",),
        responses={200: nodes.NodeList},
    ),
    Operation(
        "GET",
        "/v1/capabilities",
        "health.capabilities",
        tag="Server",
        scopes=EVERY,
        summary="What this server can do, in the form that hermes clients expect.",
        responses={200: server.Capabilities},
    ),
    Operation(
        "GET",
        "/health/detailed",
        "health.detailed",
        tag="Server",
        summary="The server's health in detail.",
        scopes=EVERY,
        responses={200: server.DetailedHealth},
    ),
    Operation(
        "GET",
        "/metrics",
        "metrics.show",
        tag="Server",
        summary="Figures for Prometheus. They name API keys, so a key that can only relay can't read them.",
        scopes=("chat", "approve", "admin"),
        responses={200: {"text/plain": None}},
    ),
    Operation(
        "GET",
        "/health",
        "health.alive",
        also=("/v1/health",),
        tag="Server",
        summary="Check whether the server is alive. Needs no key. 503 means that it must be restarted.",
        scopes=NO_KEY,
        responses={200: server.HealthShown},
        errors={503: "store_closed, tools_failed"},
    ),
    Operation(
        "GET",
        "/health/ready",
        "health.ready",
        tag="Server",
        summary="Whether the server can take requests now, for a load balancer; needs no key.",
        scopes=NO_KEY,
        responses={200: server.HealthShown},
        errors={503: "not_ready"},
    ),
    Operation(
        "GET",
        "/openapi.json",
        "docs.openapi",
        tag="Server",
        summary="This description.",
        by_cookie=True,
        scopes=EVERY,
        responses={200: dict[str, Any]},
    ),
    Operation(
        "GET",
        "/docs",
        "docs.page",
        tag="Server",
        summary="This description as a page.",
        by_cookie=True,
        scopes=EVERY,
        responses={200: {"text/html": None}},
    ),
)
