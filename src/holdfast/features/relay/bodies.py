"""The HTTP surface of the relay: its operations and request bodies."""

from typing import Annotated, Any, TypeAlias

import msgspec

from holdfast.api.operation import EVENTS, Operation

ERRORS = {
    400: "invalid_request, invalid_json, or the provider's error",
    404: "model_not_found",
    413: "body_too_large",
    415: "unsupported_encoding",
    429: (
        "rate_limited, budget_exhausted, budget_in_use or too_many_requests, with Retry-After; or the "
        "provider's error"
    ),
    502: "connect_failed, dropped, malformed: the kind of the failure",
    503: "overloaded, shutting_down",
    504: "no_first_event, stalled, upload_stalled",
    508: "relay_loop",
}
_Model: TypeAlias = Annotated[
    str, msgspec.Meta(min_length=1, description="A relayed model, as listed by GET /v1/models.")
]
_Message: TypeAlias = Annotated[
    dict[str, Any],
    msgspec.Meta(
        extra_json_schema={
            "required": ["role", "content"],
            "properties": {
                "role": {"enum": ["user", "assistant"]},
                "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]},
            },
        }
    ),
]


class RelayBody(msgspec.Struct):
    """A request body of the provider's API. Every field is forwarded."""

    model: _Model


class MessagesRequest(RelayBody):
    """A request body of Anthropic's Messages API. Every field is forwarded."""

    messages: Annotated[
        list[_Message],
        msgspec.Meta(
            min_length=1, description="The last message is from the user. Content is text or blocks."
        ),
    ]


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST",
        "/v1/messages",
        "relay.messages",
        tag="Relay",
        summary=(
            "Relay an Anthropic Messages request to a target, with Holdfast's timeouts and retries. An "
            "unknown `model` goes to the first target with this protocol, or else to the first target. The "
            "body is unchanged except for the model name. Errors use Anthropic's format. Agent names get "
            "404 `route_not_served`."
        ),
        request=MessagesRequest,
        responses={200: {"application/json": dict[str, Any], EVENTS: None}},
        errors={**ERRORS, 404: "model_not_found, route_not_served"},
        query={"beta": "Forwarded, like every other parameter."},
        needs_request=True,
        scopes=("relay",),
        may_relay=True,
    ),
    Operation(
        "POST",
        "/v1/messages/count_tokens",
        "relay.count_tokens",
        tag="Relay",
        summary=(
            "Count input tokens at the provider. If the target uses another protocol, returns an estimate, "
            "with the header `X-Holdfast-Estimate`."
        ),
        request=MessagesRequest,
        responses={200: dict[str, Any]},
        errors={**ERRORS, 404: "model_not_found, route_not_served"},
        needs_request=True,
        scopes=("relay",),
        may_relay=True,
    ),
    Operation(
        "POST",
        "/v1/embeddings",
        "relay.plain",
        also=("/v1/completions",),
        tag="Relay",
        summary=(
            "Relay an embeddings request, or a legacy completion at /v1/completions, to a target, with "
            "Holdfast's timeouts and retries. The body is unchanged except for the model name. Not "
            "available for agents or for targets with Anthropic's protocol. If the provider doesn't "
            "support the route, you get its error."
        ),
        request=RelayBody,
        responses={200: {"application/json": dict[str, Any], EVENTS: None}},
        errors={**ERRORS, 404: "model_not_found, route_not_served"},
        needs_request=True,
        scopes=("relay",),
        may_relay=True,
    ),
)
