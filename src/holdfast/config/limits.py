"""The limits on what one client can send and hold."""

from typing import Annotated

import msgspec

from holdfast.config.fields import AtLeast0, AtLeast1, Seconds, doc


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[server.limits]: limits on requests and connections."""

    body_bytes_max: Annotated[AtLeast1, doc("The largest request body, in bytes.")] = 10_000_000
    json_depth_max: Annotated[AtLeast1, doc("The deepest nesting of JSON in a request.")] = 64
    content_parts_max: Annotated[AtLeast1, doc("The most content parts in one message.")] = 1_000
    queued_runs_max: Annotated[
        AtLeast0,
        doc(
            "The most runs that can wait to start. Further requests get a 429 with `Retry-After`. Keys that "
            "use less than a sixteenth of this limit share an extra quarter."
        ),
    ] = 1_000
    subscribers_max: Annotated[
        AtLeast1,
        doc(
            "The most event streams and relayed calls open at once. Keys that use less than a sixteenth of "
            "this limit share an extra quarter."
        ),
    ] = 1_000
    upload_bytes_per_day: Annotated[
        AtLeast0,
        doc("The most bytes of attachments that one key can send in a day (UTC); 0 means no limit."),
    ] = 5_000_000_000
    unauthenticated_max: Annotated[
        AtLeast1,
        doc(
            "The most connections that stay open for over a second without sending a key. Beyond this, the "
            "oldest get a 503 with `Retry-After` and are closed."
        ),
    ] = 512
    header_s: Annotated[
        Seconds, doc("How long a client may take to send the headers of a request; 0 means no limit.")
    ] = 10.0
    body_s: Annotated[
        Seconds, doc("How long a client may pause while it sends a body; 0 means no limit.")
    ] = 30.0
