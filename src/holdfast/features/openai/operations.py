"""The operations of OpenAI's APIs: Chat Completions, Responses, conversations and models."""

from collections.abc import Iterable
from typing import Any

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
from holdfast.features.openai import bodies

_ERRORS = {
    **START_ERRORS,
    **WHOLE_ERRORS,
    400: (
        f"{START_ERRORS[400]}, unsupported_parameter, tool_name_taken, tool_result_missing, "
        "tool_result_unknown, tool_result_duplicate"
    ),
}
_IMAGES = (
    "Images are data: URLs, or https URLs that the server fetches from public addresses (up to 20 per "
    "request, 5 MiB each)."
)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


OPERATIONS: tuple[Operation, ...] = (
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
            f"{_listed(bodies.CHAT_REFUSED)}. These fields are accepted and have no effect: "
            f"{_listed(bodies.CHAT_HARMLESS)}. Unknown fields are ignored and listed in the header "
            f"`X-Holdfast-Ignored`. {_IMAGES}"
        ),
        request=bodies.ChatRequest,
        responses={200: {"application/json": bodies.ChatCompletion, EVENTS: None}},
        errors={**_ERRORS, 404: "response_not_found, model_not_found, model_missing"},
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
        responses={200: (bodies.ModelList, bodies.AnthropicModelList)},
        scopes=("chat", "relay"),
    ),
    Operation(
        "GET",
        "/v1/models/{model:path}",
        "openai.model",
        tag="OpenAI-compatible",
        summary="Get a model.",
        responses={200: (bodies.ModelShown, bodies.AnthropicModel)},
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
            f"`top_logprobs`, {_listed(bodies.RESPONSES_REFUSED)}. These fields are accepted and have no "
            f"effect: include (except for log probabilities), {_listed(bodies.RESPONSES_HARMLESS)}. Unknown "
            f"fields are ignored and listed in the header `X-Holdfast-Ignored`. {_IMAGES}"
        ),
        request=bodies.ResponsesRequest,
        responses={200: {"application/json": bodies.ResponseShown, EVENTS: None}},
        errors={**_ERRORS, 404: "response_not_found, model_not_found, model_missing"},
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
        request=bodies.InputTokensRequest,
        responses={200: bodies.InputTokens},
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
        request=bodies.CompactResponseRequest,
        responses={200: bodies.CompactedResponse},
        errors={**_ERRORS, 404: "response_not_found, model_not_found, route_not_served"},
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
        request=bodies.CreateConversationRequest,
        responses={200: bodies.ConversationShown},
        errors={400: "invalid_request, invalid_json, unsupported_parameter", 409: "idempotency_key_conflict"},
        headers=ONCE,
    ),
    Operation(
        "GET",
        "/v1/conversations/{session_id}",
        "conversations.show",
        tag="OpenAI-compatible",
        summary="Get a conversation. Any session is one.",
        responses={200: bodies.ConversationShown},
        errors=SESSION_ERRORS,
    ),
    Operation(
        "POST",
        "/v1/conversations/{session_id}",
        "conversations.change",
        tag="OpenAI-compatible",
        any_workspace="It describes the conversation to its client.",
        summary="Replace the metadata of a conversation.",
        request=bodies.ChangeConversationRequest,
        responses={200: bodies.ConversationShown},
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
        responses={200: bodies.DeletedConversation},
        errors=SESSION_ERRORS,
    ),
    Operation(
        "GET",
        "/v1/conversations/{session_id}/items",
        "conversations.items",
        tag="OpenAI-compatible",
        summary="List a conversation's items, newest first.",
        responses={200: bodies.InputItems},
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
        responses={200: {"application/json": bodies.ResponseShown, EVENTS: None}},
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
        responses={200: bodies.DeletedResponse},
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
        responses={200: bodies.InputItems},
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
        responses={200: bodies.ResponseShown},
        errors={404: "response_not_found", 503: "shutting_down"},
    ),
)
