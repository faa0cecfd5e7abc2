"""The bodies of requests that are passed on to a provider: only the fields that Holdfast needs."""

from typing import Annotated, Any, TypeAlias

import msgspec

_Model: TypeAlias = Annotated[
    str, msgspec.Meta(min_length=1, description="A relayed model; GET /v1/models lists them.")
]


class RelayedRequest(msgspec.Struct):
    """A body as the provider's API describes it. Every field is passed on."""

    model: _Model


class MessagesRequest(RelayedRequest):
    """A body as Anthropic's Messages API describes it. Every field is passed on."""

    messages: Annotated[
        list[dict[str, Any]],
        msgspec.Meta(min_length=1, description="The last one is the user's; content may be blocks."),
    ]
