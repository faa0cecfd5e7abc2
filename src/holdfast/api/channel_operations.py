"""Operations on channels."""

from holdfast.api import channels
from holdfast.api.operation import Operation
from holdfast.api.scopes import NO_KEY

_NOT_FOUND = {404: "channel_not_found"}
_BAD = {400: "invalid_request, invalid_json"}

CHANNEL_OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET",
        "/api/channels",
        "channels.list",
        tag="Server",
        summary="The chat platforms on which people talk to the agent, and whether each works.",
        scopes=("admin",),
        responses={200: channels.ChannelList},
    ),
    Operation(
        "POST",
        "/api/channels/{name}/pair",
        "channels.pair",
        tag="Server",
        summary="Make a code; whoever sends it to the bot within 10 minutes may talk and approve.",
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
        summary="Let a person talk to the agent, by the platform's id.",
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
        summary="Let a person no longer talk to the agent, whatever the settings say.",
        scopes=("admin",),
        responses={200: channels.ChannelUserChanged},
        errors=_NOT_FOUND,
    ),
    Operation(
        "POST",
        "/api/channels/{name}/test",
        "channels.test",
        tag="Server",
        summary="Send a test message to a chat, through the outbox.",
        scopes=("admin",),
        request=channels.ChannelTestRequest,
        responses={202: channels.ChannelTestIntended},
        errors=_BAD | _NOT_FOUND,
        needs_request=True,
    ),
    Operation(
        "GET",
        "/api/channels/{name}/log",
        "channels.log",
        tag="Server",
        summary="What came in, what was said, and what became of it: the newest 200 events.",
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
            "Where Telegram and Slack deliver updates to a channel with a `webhook_url`. It needs no key but "
            "the secret that the server told Telegram, or Slack's signature. Slack gets an empty answer."
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
