"""The HTTP surface of hermes' routes."""

from typing import Annotated, Literal

import msgspec

from holdfast.api.body import ResponseBody
from holdfast.api.errors import ErrorDetail
from holdfast.api.operation import EVENTS, ONCE, START_ERRORS, WHOLE_ERRORS, Operation
from holdfast.api.runs import HermesModelOptions, RunRequest, ShortText, UsageShown


class SessionChatRequest(RunRequest, kw_only=True):
    """The body of POST /api/sessions/{session_id}/chat and /chat/stream."""

    system_message: Annotated[str | None, msgspec.Meta(description="Another name for instructions.")] = None


class AssistantSaid(ResponseBody, frozen=True):
    """The model's message."""

    role: Literal["assistant"]
    content: str


class SessionChatCompletion(
    ResponseBody, frozen=True, tag_field="object", tag="hermes.session.chat.completion"
):
    """The answer to a message in a session."""

    session_id: str
    run_id: str
    status: Literal["completed"]
    message: AssistantSaid
    usage: UsageShown


class SessionChatFailed(ResponseBody, frozen=True, tag_field="object", tag="hermes.session.chat.completion"):
    """A message in a session without a complete answer."""

    session_id: str
    run_id: str
    status: str
    error: ErrorDetail
    output: str


class ToolsetShown(ResponseBody, frozen=True):
    """A group of tools. `configured` means that it can be used."""

    name: str
    label: str
    description: str
    enabled: bool
    configured: bool
    tools: tuple[str, ...]


class ToolsetList(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """The tools that runs have, by group."""

    platform: Literal["api_server"]
    data: tuple[ToolsetShown, ...]


class ProviderShown(ResponseBody, frozen=True):
    """A target as hermes' model pickers know it."""

    slug: str
    name: str
    models: tuple[str, ...]
    total_models: int
    is_current: bool
    authenticated: bool


class ModelOptionsShown(ResponseBody, frozen=True):
    """All targets, and the default one."""

    providers: tuple[ProviderShown, ...]
    model: str
    provider: str


class SessionModelRequest(msgspec.Struct):
    """The body of POST /api/sessions/{session_id}/model. Without a model, the default applies."""

    model: ShortText | None = None
    provider: ShortText | None = None
    model_options: HermesModelOptions | None = None
    require_model_lock: bool = True  # it always is one


class RequestedModel(ResponseBody, frozen=True):
    """The names in the request."""

    provider: str
    model: str


class SessionRuntime(ResponseBody, frozen=True):
    """The target of the session's runs; empty for the default."""

    provider: str = ""
    model: str = ""
    route_source: str = ""
    requested: RequestedModel | None = None
    model_lock: str = ""


class SessionModelShown(ResponseBody, frozen=True, tag_field="object", tag="hermes.session.model_lock"):
    """The session's model is set, or the default one applies again (`automatic`)."""

    session_id: str
    runtime: SessionRuntime
    automatic: bool


class GoalRequest(msgspec.Struct):
    """The body of POST /v1/sessions/{session_id}/goal."""

    action: Literal["set", "pause", "resume", "clear"]
    goal: str | None = None
    max_turns: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0


class GoalShown(ResponseBody, frozen=True):
    """A goal, and how far its run is."""

    goal: str
    status: Literal["active", "paused", "done"]
    turns_used: int
    max_turns: int
    paused_reason: str
    created_at: float
    last_turn_at: float


class SessionGoalShown(ResponseBody, frozen=True, tag_field="object", tag="hermes.session.goal"):
    """The session's newest goal. `run_id` is the run that was started for it."""

    session_id: str
    goal: GoalShown | None
    message: str = ""
    run_id: str = ""


OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "POST",
        "/api/sessions/{session_id}/chat",
        "chat.chat",
        tag="Sessions",
        any_workspace="It checks the folder of its run.",
        summary="Send a message and wait for the answer.",
        request=SessionChatRequest,
        responses={200: SessionChatCompletion},
        errors={**START_ERRORS, **WHOLE_ERRORS},
        headers=ONCE,
        needs_request=True,
    ),
    Operation(
        "POST",
        "/api/sessions/{session_id}/chat/stream",
        "chat.stream",
        tag="Sessions",
        any_workspace="It checks the folder of its run.",
        summary="Send a message and stream the answer.",
        request=SessionChatRequest,
        responses={200: {EVENTS: None}},
        errors={**START_ERRORS, 429: "queue_full, too_many_streams"},
        headers=ONCE,
        needs_request=True,
    ),
    Operation(
        "POST",
        "/api/sessions/{session_id}/model",
        "hermes.choose",
        tag="Sessions",
        summary="Set the model of a session's later runs, instead of the one in each request.",
        request=SessionModelRequest,
        responses={200: SessionModelShown},
        errors={400: "invalid_request", 404: "session_not_found, target_not_found"},
    ),
    Operation(
        "GET",
        "/v1/sessions/{session_id}/goal",
        "goals.show",
        tag="Sessions",
        summary="Get a session's goal, in hermes format.",
        responses={200: SessionGoalShown},
        errors={400: "invalid_request"},
    ),
    Operation(
        "POST",
        "/v1/sessions/{session_id}/goal",
        "goals.change",
        tag="Sessions",
        summary="Set a goal, which starts a run in goal mode, or pause, resume or clear it.",
        request=GoalRequest,
        responses={200: SessionGoalShown},
        errors={**START_ERRORS, 404: "goal_not_found", 409: "session_busy, session_deleted"},
        needs_request=True,
    ),
    Operation(
        "GET",
        "/v1/toolsets",
        "hermes.toolsets",
        tag="Server",
        summary="List the tools that runs have, by group, in hermes format.",
        responses={200: ToolsetList},
    ),
    Operation(
        "GET",
        "/api/model/options",
        "hermes.options",
        tag="Server",
        summary="List targets, in the format of hermes' model pickers.",
        responses={200: ModelOptionsShown},
    ),
)
