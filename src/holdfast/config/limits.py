"""The limits on what one client can send and hold."""

from typing import Annotated

import msgspec

from holdfast.config.fields import AtLeast0, AtLeast1, Seconds, doc


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """[server.limits]: limits on requests and connections."""

    body_bytes_max: Annotated[AtLeast1, doc("Maximum size of a request body, in bytes.")] = 10_000_000
    json_depth_max: Annotated[AtLeast1, doc("Maximum nesting depth of JSON in a request.")] = 64
    content_parts_max: Annotated[AtLeast1, doc("Maximum number of content parts in a message.")] = 1_000
    queued_runs_max: Annotated[
        AtLeast0,
        doc(
            "Maximum number of queued runs. Further requests get a 429 with `Retry-After`. Keys that use "
            "less than a sixteenth of this limit share an extra quarter."
        ),
    ] = 1_000
    subscribers_max: Annotated[
        AtLeast1,
        doc(
            "Maximum number of open event streams and relayed calls. Keys that use less than a sixteenth of "
            "this limit share an extra quarter."
        ),
    ] = 1_000
    upload_bytes_per_day: Annotated[
        AtLeast0,
        doc("Maximum bytes of attachments per key and day (UTC); 0 means no limit."),
    ] = 5_000_000_000
    unauthenticated_max: Annotated[
        AtLeast1,
        doc(
            "Maximum number of connections open for over a second without a key. Beyond this, the oldest get "
            "a 503 with `Retry-After` and are closed."
        ),
    ] = 512
    header_s: Annotated[
        Seconds, doc("How long a client can take to send a request's headers; 0 means no limit.")
    ] = 10.0
    body_s: Annotated[Seconds, doc("How long a client can pause while sending a body; 0 means no limit.")] = (
        30.0
    )
