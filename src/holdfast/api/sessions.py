"""The bodies of requests and responses about sessions."""

import msgspec

OFFSET_MAX = 10_000  # sessions that a client without a cursor may have seen


class CreateSessionRequest(msgspec.Struct):
    """The body of POST /api/sessions."""

    id: str | None = None
    session_id: str | None = None
    title: str | None = None
    workspace: str | None = None


class ChangeSessionRequest(msgspec.Struct):
    """The body of PATCH /api/sessions/{session_id}."""

    title: str | None = None
    pinned: bool | None = None
    archived: bool | None = None
    read_seq: int | None = None


class DraftRequest(msgspec.Struct):
    """The body of PUT /api/sessions/{session_id}/draft: what a person has written and not sent."""

    text: str


class ForkRequest(msgspec.Struct):
    """The body of POST /api/sessions/{session_id}/fork."""

    at_seq: int | None = None
    id: str | None = None
    session_id: str | None = None
    title: str | None = None


class RewindRequest(msgspec.Struct):
    """The body of POST /api/sessions/{session_id}/rewind."""

    to_seq: int


class ChangeMessageRequest(msgspec.Struct):
    """The body of PATCH /api/sessions/{session_id}/queue/{message_id}."""

    text: str | None = None
    position: int | None = None  # 0 is next
    steer: bool = False  # hand it to the run under way
