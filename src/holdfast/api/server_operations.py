"""Operations for OpenAI clients, the page and server administration."""

from collections.abc import Iterable
from typing import Any

from holdfast.api import access, nodes, openai, server, usage
from holdfast.api.operation import (
    CHAT_HEADERS,
    EVENTS,
    ONCE,
    PROMPT_HEADER,
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
    "Images are data: URLs, or https URLs that the server fetches from public addresses (up to 20 per "
    "request, 5 MiB each)."
)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


SERVER_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        "/api/events",
        "log.list_changes",
        tag="Server",
        summary="Stream session list changes, for a client without an open session.",
        responses={200: {EVENTS: None}},
        errors={429: "too_many_streams"},
    ),
    Operation(
        "POST",
        "/api/blobs",
        "blobs.upload",
        tag="Server",
        summary=(
            "Upload an image or file to reference by name in message parts. The model sees images, PDFs "
            "and text up to 32 KiB. Other files are saved under `attachments/` in the run's workspace, and "
            "the model gets the path. The event `attachments.saved` has the path, or the reason for a "
            "failure."
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
        summary="Download a blob, or show it as an image if `media_type` is set.",
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
            "Sign in a browser with a key, or with the one-time token of a sign-in link. Returns a cookie "
            "and `page`. Requests need both: send `page` as `X-Holdfast-Page`, because browsers send "
            "cookies to every port of a host."
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
        summary="Sign out a browser.",
        scopes=EVERY,
        responses={200: access.SignedOut},
    ),
    Operation(
        "POST",
        "/api/sign-in-links",
        "browsers.link",
        tag="Server",
        summary=(
            "Create a sign-in link for one browser with the caller's key. The token works once, for ten "
            "minutes. The link is the server's URL followed by `/#token=…`."
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
            "Create a ticket for an image or download, where a browser can't send headers. It's valid for "
            "one path and query, for one minute, as the query parameter `ticket`."
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
        summary="List API keys, without their secrets.",
        scopes=("admin",),
        responses={200: access.KeyList},
    ),
    Operation(
        "POST",
        "/api/keys",
        "keys.add",
        tag="Server",
        summary="Create a key. Only this response contains its secret.",
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
        summary="Revoke a key and sign out every browser that used it.",
        scopes=("admin",),
        responses={200: access.KeyRevoked},
        errors={404: "key_not_found", 409: "key_configured"},
    ),
    Operation(
        "GET",
        "/api/quarantine",
        "quarantine.list",
        tag="Server",
        summary="List quarantined files, newest first: changes made by commands without approval.",
        scopes=("approve",),
        responses={200: server.QuarantineList},
    ),
    Operation(
        "POST",
        "/api/quarantine/{file_id}/restore",
        "quarantine.restore",
        tag="Server",
        summary="Restore a quarantined file. Any file it replaces is moved to quarantine.",
        scopes=("approve",),
        responses={200: server.QuarantineRestored},
        errors={403: "workspace_not_allowed", 404: "not_in_quarantine", 409: "file_unusable"},
    ),
    Operation(
        "DELETE",
        "/api/quarantine/{file_id}",
        "quarantine.delete",
        tag="Server",
        summary="Permanently delete a quarantined file.",
        scopes=("approve",),
        responses={200: server.QuarantineDeleted},
        errors={403: "workspace_not_allowed", 404: "not_in_quarantine", 409: "file_unusable"},
    ),
    Operation(
        "POST",
        "/v1/chat/completions",
        "openai.complete",
        tag="OpenAI-compatible",
        summary=(
            "Create an OpenAI chat completion. The agent uses its own tools; their calls aren't in the "
            "answer, but a stream reports them as `hermes.tool.progress`. temperature, length, effort and "
            "response_format are passed to the model. If an answer doesn't match response_format, the "
            "model gets one retry, then the run fails with `output_invalid`. With response_format, a "
            "stream sends the answer as one chunk. `tools` are functions that you run, in addition to the "
            "agent's own tools. A function with the same name as an agent's tool replaces it. If the model "
            "calls one, the response ends with `tool_calls` and the run waits (`waiting_for_client`). To "
            "continue the same run, send the messages again with the results of all calls. Results are "
            "accepted once, from the same API key. `tool_choice` applies to the next answer. top_p, stop, "
            "seed, the penalties, logit_bias, verbosity and parallel_tool_calls are passed to models that "
            "support them. Unsupported fields return a 400 that names them: `n` above 1, `logprobs`, "
            f"{_listed(openai.CHAT_REFUSED)}. These fields are accepted and have no effect: "
            f"{_listed(openai.CHAT_HARMLESS)}. Unknown fields are ignored and listed in the header "
            f"`X-Holdfast-Ignored`. {IMAGES}"
        ),
        request=openai.ChatRequest,
        responses={200: {"application/json": openai.ChatCompletion, EVENTS: None}},
        errors={**OPENAI_ERRORS, 404: "response_not_found, model_not_found, model_missing"},
        headers={**ONCE, **SESSION_HEADER, **CHAT_HEADERS, **PROMPT_HEADER},
        needs_request=True,
        scopes=("chat", "relay"),
        may_relay=True,
    ),
    Operation(
        "GET",
        "/v1/models",
        "openai.models",
        tag="OpenAI-compatible",
        summary=(
            "List the names that `model` accepts: agents (owned by `holdfast`) and relayed models (owned "
            "by `holdfast-relay`). With the header `anthropic-version`, uses Anthropic's format."
        ),
        responses={200: (openai.ModelList, openai.AnthropicModelList)},
        scopes=("chat", "relay"),
    ),
    Operation(
        "GET",
        "/v1/models/{model:path}",
        "openai.model",
        tag="OpenAI-compatible",
        summary="Get a model.",
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
            "Create an OpenAI response. The agent uses its own tools; `output` lists each call as an "
            "`mcp_call` with its result, followed by the answer. (Clients that send an X-Hermes header get "
            "a `function_call` and its output instead.) `tools` are functions that you run, in addition to "
            "the agent's own tools. If the model calls one, `output` ends with `function_call` items and "
            "the run waits (`waiting_for_client`). To continue the same run in a new response, send the "
            "results of all calls as `function_call_output` items. A background response returns "
            "immediately and runs without a reader. An `item_reference` in `input` refers to an item of an "
            "earlier response's `output`. temperature, length, effort, top_p, text and parallel_tool_calls "
            "are passed to models that support them. Unsupported fields return a 400 that names them: "
            f"`top_logprobs`, {_listed(openai.RESPONSES_REFUSED)}. These fields are accepted and have no "
            f"effect: include (except for log probabilities), {_listed(openai.RESPONSES_HARMLESS)}. Unknown "
            f"fields are ignored and listed in the header `X-Holdfast-Ignored`. {IMAGES}"
        ),
        request=openai.ResponsesRequest,
        responses={200: {"application/json": openai.ResponseShown, EVENTS: None}},
        errors={**OPENAI_ERRORS, 404: "response_not_found, model_not_found, model_missing"},
        headers={**ONCE, **SESSION_HEADER, **PROMPT_HEADER},
        needs_request=True,
        scopes=("chat", "relay"),
        may_relay=True,
    ),
    Operation(
        "POST",
        "/v1/responses/input_tokens",
        "responses.input_tokens",
        tag="OpenAI-compatible",
        summary=(
            "Count the input tokens of a response. For an agent, returns an estimate that includes its "
            "instructions and tools, with the header `X-Holdfast-Estimate`. For a relayed model whose "
            "target supports Responses, returns the provider's count."
        ),
        request=openai.InputTokensRequest,
        responses={200: openai.InputTokens},
        errors={400: "invalid_request, invalid_json", 404: "response_not_found, model_not_found"},
        scopes=("chat", "relay"),
        may_relay=True,
    ),
    Operation(
        "POST",
        "/v1/responses/compact",
        "responses.compact",
        tag="OpenAI-compatible",
        summary=(
            "Summarize a conversation. `output` has its user messages and a `compaction` item; send them "
            "as the first `input` items of the next response. The conversation is `input`, the one that "
            "ends with `previous_response_id`, or both. `instructions` describe what the summary must "
            "keep. For a relayed model whose target supports Responses, the provider summarizes."
        ),
        request=openai.CompactResponseRequest,
        responses={200: openai.CompactedResponse},
        errors={**OPENAI_ERRORS, 404: "response_not_found, model_not_found, route_not_served"},
        headers=ONCE,
        needs_request=True,
        scopes=("chat", "relay"),
        may_relay=True,
    ),
    Operation(
        "POST",
        "/v1/conversations",
        "conversations.create",
        tag="OpenAI-compatible",
        summary=(
            "Create a conversation: a session whose id you can pass as `conversation`. Items are added by "
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
        summary="Get a conversation. Any session is one.",
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
        summary="Stop a session's runs and delete it. You can undelete it for a while.",
        responses={200: openai.DeletedConversation},
        errors=SESSION_ERRORS,
    ),
    Operation(
        "GET",
        "/v1/conversations/{session_id}/items",
        "conversations.items",
        tag="OpenAI-compatible",
        summary="List a conversation's items, newest first.",
        responses={200: openai.InputItems},
        errors={400: "invalid_request", **SESSION_ERRORS},
        query={
            "order": "desc (default) or asc.",
            "limit": "Page size: 1 to 100. Default: 20.",
            "after": "`last_id` of the previous page.",
        },
    ),
    Operation(
        "GET",
        "/v1/conversations/{session_id}/items/{item_id}",
        "conversations.item",
        tag="OpenAI-compatible",
        summary="Get an item.",
        responses={200: dict[str, Any]},
        errors={404: "session_not_found, item_not_found"},
    ),
    Operation(
        "GET",
        "/v1/responses/{response_id}",
        "responses.show",
        tag="OpenAI-compatible",
        summary="Get a response, or stream its events from the start or after one of them.",
        responses={200: {"application/json": openai.ResponseShown, EVENTS: None}},
        errors={400: "invalid_request", 404: "response_not_found", 429: "too_many_streams"},
        query={
            "stream": "true streams events.",
            "starting_after": "The number of the last event you received.",
        },
    ),
    Operation(
        "DELETE",
        "/v1/responses/{response_id}",
        "responses.delete",
        tag="OpenAI-compatible",
        summary="Permanently hide a response.",
        responses={200: openai.DeletedResponse},
        errors={403: "workspace_not_allowed", 404: "response_not_found"},
    ),
    Operation(
        "GET",
        "/v1/responses/{response_id}/input_items",
        "responses.input_items",
        tag="OpenAI-compatible",
        summary=(
            "List a response's input items, newest first: the history from the request or the session, and "
            "the message."
        ),
        responses={200: openai.InputItems},
        errors={400: "invalid_request", 404: "response_not_found"},
        query={
            "order": "desc (default) or asc.",
            "limit": "Page size: 1 to 100. Default: 20.",
            "after": "`last_id` of the previous page.",
        },
    ),
    Operation(
        "POST",
        "/v1/responses/{response_id}/cancel",
        "responses.cancel",
        tag="OpenAI-compatible",
        summary="Stop a response and return it once it has ended. No effect if it has already ended.",
        responses={200: openai.ResponseShown},
        errors={404: "response_not_found", 503: "shutting_down"},
    ),
    Operation(
        "GET",
        "/api/targets",
        "targets.list",
        tag="Server",
        summary="List targets with their health, activity and timeouts.",
        responses={200: server.TargetList},
    ),
    Operation(
        "POST",
        "/api/targets/{name}/try",
        "targets.try_one",
        tag="Server",
        summary=(
            "Test a target with one small real call, within 25 seconds. It costs a few tokens, and "
            "bypasses provider-requested pauses and the circuit breaker. If the target answers, both are "
            "reset. Only one test can run at a time."
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
            "Report usage of runs and relayed calls: tokens, and cost where the price is known. One row "
            "per day, target, session or key; up to 1000, costliest first. `budgets` lists keys with a "
            "budget and their usage today."
        ),
        scopes=("admin",),
        responses={200: usage.UsageSummary},
        errors={400: "invalid_request"},
        query={
            "by": "day (default), target, session or key.",
            "from": "First day (UTC), such as 2026-01-31. Default: 29 days before `to`.",
            "to": "Last day (UTC). Default: today. Up to 366 days.",
        },
    ),
    Operation(
        "GET",
        "/api/nodes",
        "nodes.list",
        tag="Server",
        summary=(
            "List the servers that share the store, with their active session counts. With SQLite, lists "
            "only this server, without a name."
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
        summary="Get the server's capabilities, in hermes format.",
        responses={200: server.Capabilities},
    ),
    Operation(
        "GET",
        "/health/detailed",
        "health.detailed",
        tag="Server",
        summary="Get detailed server health.",
        scopes=EVERY,
        responses={200: server.DetailedHealth},
    ),
    Operation(
        "GET",
        "/metrics",
        "metrics.show",
        tag="Server",
        summary="Get Prometheus metrics. They include API key names, so relay-only keys can't read them.",
        scopes=("chat", "approve", "admin"),
        responses={200: {"text/plain": None}},
    ),
    Operation(
        "GET",
        "/health",
        "health.alive",
        also=("/v1/health",),
        tag="Server",
        summary="Check liveness. Needs no key. 503 means that the server must be restarted.",
        scopes=NO_KEY,
        responses={200: server.HealthShown},
        errors={503: "store_closed, tools_failed"},
    ),
    Operation(
        "GET",
        "/health/ready",
        "health.ready",
        tag="Server",
        summary="Check readiness, for a load balancer. Needs no key.",
        scopes=NO_KEY,
        responses={200: server.HealthShown},
        errors={503: "not_ready"},
    ),
    Operation(
        "GET",
        "/openapi.json",
        "docs.openapi",
        tag="Server",
        summary="Get this description as OpenAPI.",
        by_cookie=True,
        scopes=EVERY,
        responses={200: dict[str, Any]},
    ),
    Operation(
        "GET",
        "/docs",
        "docs.page",
        tag="Server",
        summary="Get this description as a web page.",
        by_cookie=True,
        scopes=EVERY,
        responses={200: {"text/html": None}},
    ),
)
