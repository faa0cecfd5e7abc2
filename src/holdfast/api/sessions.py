"""Request and response bodies for sessions."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from holdfast.api.body import ALWAYS_TRUE, AbsolutePath, ResponseBody, one_of
from holdfast.api.runs import SessionId, ShortText
from holdfast.values import MODES, ApprovalMode, OldMode, Part, PlanStep

OFFSET_MAX = 10_000  # limit of paging without a cursor


class CreateSessionRequest(msgspec.Struct):
    """The body of POST /api/sessions."""

    id: SessionId | None = None
    session_id: SessionId | None = None
    title: str | None = None
    workspace: AbsolutePath | None = None
    origin: str | None = None  # as in POST /v1/runs
    model: Annotated[
        ShortText | None,
        Meta(description="Target for the session's runs. Unknown values select the default."),
    ] = None
    system_prompt: Annotated[
        str | None, Meta(description="Instructions for all runs of the session, added to the server's.")
    ] = None


class ChangeSessionRequest(msgspec.Struct):
    """The body of PATCH /api/sessions/{session_id}."""

    title: str | None = None
    pinned: bool | None = None
    archived: bool | None = None
    read_seq: int | None = None


class DraftRequest(msgspec.Struct):
    """The body of PUT /api/sessions/{session_id}/draft: the unsent draft."""

    text: str


class ForkRequest(msgspec.Struct):
    """The body of POST /api/sessions/{session_id}/fork."""

    at_seq: Annotated[int, msgspec.Meta(ge=1)] | None = None
    id: SessionId | None = None
    session_id: SessionId | None = None
    title: str | None = None  # default: the title of the source


class ApprovalModeRequest(msgspec.Struct):
    """The body of PUT /api/sessions/{session_id}/approval-mode. An empty mode selects the configured one."""

    mode: Literal["", ApprovalMode, OldMode]


class RewindRequest(msgspec.Struct):
    """The body of POST /api/sessions/{session_id}/rewind."""

    to_seq: Annotated[int, msgspec.Meta(ge=1)]


class CompactRequest(msgspec.Struct):
    """The body of POST /api/sessions/{session_id}/compact: topics to keep in the summary."""

    focus: Annotated[str, msgspec.Meta(max_length=2_000)] = ""
    client_id: str = ""


class PinRequest(msgspec.Struct):
    """The body of POST /api/sessions/{session_id}/context/pin and /unpin.

    `id` is the id of a message or, for an answer, of its run.
    """

    id: str


class RevertRequest(msgspec.Struct):
    """The body of POST /api/sessions/{session_id}/context/revert.

    `model` is the target that the next message goes to. Its window counts.
    """

    seq: Annotated[int, msgspec.Meta(ge=1)]
    model: str = ""


class ChangeMessageRequest(msgspec.Struct):
    """The body of PATCH /api/sessions/{session_id}/queue/{message_id}."""

    text: str | None = None
    position: int | None = None  # 0 is next
    steer: bool = False  # send it to the active run


class HitShown(ResponseBody, frozen=True):
    """A search match. `highlights` are (begin, end) pairs in the passage."""

    seq: int
    passage: str
    highlights: tuple[tuple[int, int], ...]


class SessionShown(ResponseBody, frozen=True, tag_field="object", tag="hermes.session"):
    """A session in a list. `session` is a copy for hermes clients."""

    id: str
    session_id: str
    epoch: str
    title: str
    source: str
    workspace: str
    preview: str
    created_at: float
    started_at: float
    updated_at: float
    last_active: float
    message_count: int
    pinned: bool
    archived: bool
    open_runs: int
    open_asks: int
    begun_runs: int  # open runs that are past the queue
    read_seq: int
    unread: bool
    purge_at: float | None = None
    last_seq: int = 0
    hit: HitShown | None = None
    parent_session_id: str = ""  # of a sub-agent's session
    session: "SessionShown | None" = None


class ApprovalModeShown(ResponseBody, frozen=True):
    """The permission mode of a session, as in the request. An empty mode means the configured one."""

    mode: Annotated[str, one_of("", *MODES, "allow-workspace")]


class SessionPage(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """A page of sessions: pinned first, then newest."""

    data: tuple[SessionShown, ...]
    has_more: bool
    next_cursor: str | None
    limit: int | UnsetType = UNSET
    offset: int | UnsetType = UNSET
    open_asks: Annotated[
        int | UnsetType,
        msgspec.Meta(description="The number of open approvals and questions in all sessions."),
    ] = UNSET


class SessionMade(ResponseBody, frozen=True, tag_field="object", tag="hermes.session"):
    """A session that was created."""

    id: str
    session_id: str
    title: str
    epoch: str
    created_at: float
    session: "SessionMade | None" = None


class Forked(ResponseBody, frozen=True, tag_field="object", tag="hermes.session"):
    """A session forked from another."""

    id: str
    session_id: str
    forked_from: str
    parent_session_id: str
    at_seq: int
    session: "Forked | None" = None


class DeletedSession(ResponseBody, frozen=True, tag_field="object", tag="hermes.session.deleted"):
    """The session is hidden and will be purged at `purge_at`. Without `purge_at`, it's already purged."""

    id: str
    session_id: str
    deleted: Annotated[bool, ALWAYS_TRUE]
    purge_at: float | None = None


class DraftText(ResponseBody, frozen=True):
    """The unsent draft."""

    text: str


class SupersededTextShown(ResponseBody, frozen=True):
    """Text of an attempt that was interrupted by a restart or retry and is being rewritten."""

    text: str
    cause: Annotated[str, one_of("restart", "retry")]


class TranscriptRun(ResponseBody, frozen=True):
    """A run's state at the end of the page, from which a client applies events."""

    run_id: str
    message_id: str
    model: str
    first_seq: int
    created_ms: int
    started_ms: int
    updated_ms: int
    phase: str
    stop_cause: str
    gate_until_ms: int
    call_id: str
    attempt_id: str
    target: str
    answers: bool
    context_tokens: int
    usage: dict[str, Any]
    doing: dict[str, Any]
    texts: tuple[int, ...]
    thoughts: tuple[int, ...]
    files_changed: int = 0
    is_planning: bool = False  # read-only until a person accepts its plan
    superseded: Annotated[
        SupersededTextShown | None,
        msgspec.Meta(description="Show it until the new text catches up. It isn't part of the answer."),
    ] = None


class UndoShown(ResponseBody, frozen=True):
    """An undo that can be redone, or whose runs haven't been restored."""

    undo_id: str
    run_id: str
    seq: int
    at_ms: int
    files: Annotated[int, Meta(description="Number of files it changed.")]
    turns: Annotated[int, Meta(description="Number of runs it removed from the conversation.")]
    returns_chat: Annotated[
        bool,
        Meta(
            description=(
                "Whether a redo restores the runs. Once the conversation continues, it restores only files."
            )
        ),
    ]
    partial: Annotated[bool, Meta(description="Whether it undid individual files instead of whole runs.")]
    paths: Annotated[
        tuple[str, ...],
        Meta(description="The files; sent only with a run's changes. Empty if they're no longer stored."),
    ] = ()
    files_redone: Annotated[
        bool,
        Meta(
            description="Whether a redo restored its files but not its runs. Fork at `seq` - 1 to see them."
        ),
    ] = False


class PlanShown(ResponseBody, frozen=True):
    """The newest plan of a session, from the event with this seq."""

    seq: int
    run_id: str
    steps: tuple[PlanStep, ...]
    accepted: bool = False


class TranscriptPage(ResponseBody, frozen=True, kw_only=True, tag_field="object", tag="list"):
    """A page of the transcript in chronological order. `next_before` is the cursor of the previous page.

    `is_away` is true if no running server has the session's files. Its runs wait until someone moves the
    session.
    """

    session_id: str
    data: tuple[dict[str, Any], ...]
    has_more: bool
    next_before: int | None
    last_seq: int
    # Fields that can be unset are only on the newest page.
    title: str | UnsetType = UNSET
    epoch: str | UnsetType = UNSET
    workspace: str | UnsetType = UNSET
    permission_mode: Annotated[str | UnsetType, one_of(*MODES)] = UNSET
    forked_from: Annotated[
        str | UnsetType, msgspec.Meta(description="The session it was forked from, if any.")
    ] = UNSET
    queue_paused: bool | UnsetType = UNSET
    waiting: tuple[dict[str, Any], ...] | UnsetType = UNSET
    usage: dict[str, Any] | UnsetType = UNSET
    runs: tuple[TranscriptRun, ...]
    session: SessionShown | UnsetType = UNSET
    live: dict[str, str] | UnsetType = UNSET
    marks: dict[str, str] = {}  # noqa: RUF012  # each struct gets its own
    is_away: bool = False
    plan: PlanShown | None = None
    versions: Annotated[
        tuple[str, ...], msgspec.Meta(description="Sessions with other versions of its messages.")
    ] = ()
    undos: Annotated[
        tuple[UndoShown, ...], msgspec.Meta(description="Undos that can be redone, oldest first.")
    ] = ()
    pins: Annotated[
        tuple[str, ...], msgspec.Meta(description="Pinned messages, and runs whose answers are pinned.")
    ] = ()


class TrimmedShown(ResponseBody, frozen=True):
    """A tool result that was removed from what the model sees: its tool, and the seq of the call."""

    name: str
    seq: int
    chars: int


class ShortenedShown(ResponseBody, frozen=True, kw_only=True):
    """A compaction or trimming. `summary` replaces the messages, or `results` were removed."""

    seq: int
    kind: Annotated[str, one_of("compaction", "trimming")]
    at: float
    run_id: str
    tokens_before: Annotated[int, Meta(description="Estimated, as is `tokens_after`.")]
    tokens_after: int
    call_id: Annotated[str, Meta(description="The call that wrote the summary.")] = ""
    cost_usd: Annotated[float | None, Meta(description="The cost of that call, if known.")] = None
    summary: str = ""
    failure: Annotated[str, Meta(description="Why no model wrote the summary.")] = ""
    results: tuple[TrimmedShown, ...] = ()
    reverted: bool = False
    reverted_by: Annotated[str, Meta(description="The name of the API key.")] = ""


class ContextMessage(ResponseBody, frozen=True, kw_only=True):
    """A message or an answer that is pinned or can be."""

    id: Annotated[str, Meta(description="The message or, for an answer, its run.")]
    seq: int
    author: Annotated[str, one_of("person", "model")]
    text: Annotated[str, Meta(description="The first 200 characters.")]
    tokens: int
    pinned: bool
    sent: Annotated[
        bool, Meta(description="Whether the next call contains it word for word, not only in a summary.")
    ]


class CallTokens(ResponseBody, frozen=True, kw_only=True):
    """Tokens of a model call, as the provider counted them."""

    seq: int
    at: float
    run_id: str
    call_id: str
    new_tokens: Annotated[int, Meta(description="Input that wasn't read from the prompt cache.")]
    cached_tokens: int
    output_tokens: int
    target: str = ""
    model: str = ""


class CacheBreak(ResponseBody, frozen=True):
    """Why a call after the first couldn't use the prompt cache: the `reason` of the event `context.set`."""

    seq: int
    at: float
    reason: str


class ContextShown(ResponseBody, frozen=True, kw_only=True):
    """What the next model call of a session contains. Each list ends with its newest."""

    session_id: str
    last_seq: int
    window_tokens: Annotated[
        int,
        Meta(description="The window of the named target, of the last run's, or else the smallest of all."),
    ]
    fit_tokens: Annotated[int, Meta(description="Beyond this, a run shortens the conversation first.")]
    used_tokens: int
    used_percent: Annotated[int, Meta(description="`used_tokens` as a share of the window.")]
    estimated: Annotated[
        bool, Meta(description="Whether `used_tokens` is an estimate and not the last call's count.")
    ]
    system_tokens: Annotated[int, Meta(description="The system text, estimated.")]
    tools_tokens: Annotated[int, Meta(description="The declarations of the tools, estimated.")]
    messages_tokens: Annotated[int, Meta(description="The conversation, estimated.")]
    tools: Annotated[tuple[str, ...], Meta(description="The tools that the last call declared.")]
    shortened: tuple[ShortenedShown, ...]
    pins: tuple[ContextMessage, ...]
    pins_tokens: int
    pins_tokens_max: int
    messages: tuple[ContextMessage, ...]
    last_call: CallTokens | None = None
    cache_break: CacheBreak | None = None


class LogStretch(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """Part of a session's log. `bytes` has the sizes of the stored bodies. Cursors are SEQ@EPOCH."""

    session_id: str
    epoch: str
    bytes: tuple[int, ...]
    last_seq: int
    events: tuple[dict[str, Any], ...]


class SessionExport(ResponseBody, frozen=True, tag_field="object", tag="holdfast.session.export"):
    """A whole session."""

    session: SessionShown
    events: tuple[dict[str, Any], ...]


class QueuedMessage(ResponseBody, frozen=True):
    """A queued message."""

    message_id: str
    run_id: str
    text: str
    parts: tuple[Part, ...]
    mode: str
    state: str
    position: int
    client_id: str
    created_at: float


class QueueShown(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """The queue of a session, in order."""

    paused: bool
    data: tuple[QueuedMessage, ...]
