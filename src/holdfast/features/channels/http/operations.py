"""Operations on channels."""

from holdfast.api.operation import NO_KEY, ONCE, Operation
from holdfast.features.channels.http import bodies as channels

_NOT_FOUND = {404: "channel_not_found"}
_BAD = {400: "invalid_request, invalid_json"}

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        "/api/channels",
        "channels.list",
        tag="Server",
        summary="List channels and their connection status.",
        scopes=("admin",),
        responses={200: channels.ChannelList},
    ),
    Operation(
        "POST",
        "/api/channels/{name}/pair",
        "channels.pair",
        tag="Server",
        summary=(
            "Create a pairing code. The first person to send it to the bot within 10 minutes can talk and "
            "approve."
        ),
        scopes=("admin",),
        request=channels.PairRequest,
        responses={201: channels.PairingCode},
        errors=_BAD | _NOT_FOUND,
    ),
    Operation(
        "POST",
        "/api/channels/{name}/users",
        "channels.allow",
        tag="Server",
        summary="Grant a person access by their platform user ID.",
        scopes=("admin",),
        request=channels.AllowRequest,
        responses={200: channels.ChannelUserChanged},
        errors=_BAD | _NOT_FOUND,
        needs_request=True,
    ),
    Operation(
        "DELETE",
        "/api/channels/{name}/users/{user}",
        "channels.revoke",
        tag="Server",
        summary="Revoke a person's access, overriding the configuration.",
        scopes=("admin",),
        responses={200: channels.ChannelUserChanged},
        errors=_NOT_FOUND,
    ),
    Operation(
        "POST",
        "/api/channels/{name}/test",
        "channels.test",
        tag="Server",
        summary="Queue a test message to a chat.",
        scopes=("admin",),
        request=channels.ChannelTestRequest,
        responses={202: channels.ChannelTestIntended},
        errors=_BAD | _NOT_FOUND,
        needs_request=True,
    ),
    Operation(
        "POST",
        "/api/channels/{name}/messages",
        "channels.send",
        tag="Server",
        summary="Send a message or a file to a known chat. A repeated Idempotency-Key sends nothing again.",
        scopes=("admin",),
        request=channels.ChannelMessageRequest,
        responses={202: channels.ChannelMessageShown},
        errors={
            400: "invalid_request, invalid_json, unknown_chat, no_home_chat, blob_not_found",
            404: "channel_not_found",
            409: "idempotency_key_conflict",
        },
        needs_request=True,
        headers=ONCE,
    ),
    Operation(
        "GET",
        "/api/channels/{name}/messages/{message_id}",
        "channels.message",
        tag="Server",
        summary="Show the delivery status of a message.",
        scopes=("admin",),
        responses={200: channels.ChannelMessageShown},
        errors={404: "channel_not_found, message_not_found"},
    ),
    Operation(
        "GET",
        "/api/channels/{name}/log",
        "channels.log",
        tag="Server",
        summary="List messages received and sent, with delivery status: the newest 200 events.",
        scopes=("admin",),
        responses={200: channels.ChannelHistory},
        errors=_NOT_FOUND,
    ),
    Operation(
        "POST",
        "/hooks/channels/{name}",
        "channels.deliver",
        tag="Server",
        summary=(
            "Receive updates from Telegram and Slack for a channel with a `webhook_url`. Authenticated by "
            "Telegram's secret token or Slack's signature instead of a key. Slack gets an empty response."
        ),
        scopes=NO_KEY,
        raw_request="application/json",
        responses={200: channels.ChannelUpdateAccepted},
        errors={
            400: "invalid_request",
            401: "bad_signature",
            408: "body_too_slow",
            413: "body_too_large",
            503: "too_busy, server_silent",
        },
        needs_request=True,
    ),
)
