"""Request and response bodies for approvals, questions and stored rules."""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.api.body import ALWAYS_TRUE, ResponseBody, one_of
from holdfast.values import Action, Choice, GrantOffer, GrantRule, PlanStep, Width


class ApprovalRequest(msgspec.Struct):
    """The body of POST /v1/runs/{run_id}/approval. For `choice`, approve and allow mean once.

    The id is optional if only one approval is open.
    """

    choice: str
    approval_id: str | None = None
    request_id: Annotated[str | None, msgspec.Meta(description="Hermes clients' name for approval_id.")] = (
        None
    )
    all: Any = None
    resolve_all: Any = None
    reason: str | None = None
    width: Width = "exact"
    steps: Annotated[
        list[PlanStep] | None,
        msgspec.Meta(description="The edited plan, to accept it with changes: 1 to 50 steps."),
    ] = None


class AnswerRequest(msgspec.Struct):
    """The body of POST /v1/runs/{run_id}/question/{question_id} and of hermes-webui's paths for it.

    `clarify_id` names the question if the path doesn't. It's optional if only one question is open.
    """

    answer: str | None = None
    response: Annotated[str | None, msgspec.Meta(description="Another name for answer.")] = None
    clarify_id: str | None = None


class ApprovalResolved(ResponseBody, frozen=True, tag_field="object", tag="hermes.run.approval_response"):
    """The number of approvals resolved."""

    run_id: str
    choice: Choice
    resolved: int
    approval_id: str = ""


class QuestionResolved(ResponseBody, frozen=True):
    """The answer is stored."""

    run_id: str
    question_id: str
    status: Literal["answered"]


class RulePreview(ResponseBody, frozen=True):
    """The rule that "session" or "always" would store, or null if that choice isn't available."""

    approval_id: str
    choice: Literal["session", "always"]
    rule: GrantRule | None
    width: Width = "exact"


class _OpenAsk(ResponseBody, frozen=True, kw_only=True):
    run_id: str
    session_id: str
    asked_at: float
    root_session_id: Annotated[
        str, msgspec.Meta(description="For a sub-agent, the root session of its tree.")
    ] = ""
    title: Annotated[str, msgspec.Meta(description="The title of the session, or of its root session.")] = ""
    source: Annotated[
        str, msgspec.Meta(description="That session's source, such as a channel or a trigger.")
    ] = ""


class OpenApproval(_OpenAsk, frozen=True, tag_field="kind", tag="approval"):
    """A pending approval."""

    approval_id: str
    tool_call_id: str
    tool: str
    command: str
    description: str
    findings: tuple[str, ...]
    action: Action
    choices: tuple[Annotated[str, one_of("once", "session", "always", "deny")], ...]
    expires_at: float | None
    headline: str = ""
    offers: tuple[GrantOffer, ...] = ()
    once_because: str = ""

    @property
    def ask_id(self) -> str:
        """Return the id for answering it."""
        return self.approval_id


class OpenQuestion(_OpenAsk, frozen=True, tag_field="kind", tag="question"):
    """A pending question."""

    question_id: str
    tool_call_id: str
    question: str
    choices: tuple[str, ...]
    expires_at: float | None

    @property
    def ask_id(self) -> str:
        """Return the id for answering it."""
        return self.question_id


OpenAsk: TypeAlias = OpenApproval | OpenQuestion


class AskList(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """Open approvals and questions, oldest first, up to 200 of `total`."""

    data: tuple[OpenAsk, ...]
    total: int = 0


class GrantShown(ResponseBody, frozen=True, kw_only=True):
    """A stored rule, with a description in `says`. Session rules have a `session_id`."""

    grant_id: str
    scope: Literal["session", "always"]
    session_id: str = ""
    rule: GrantRule
    says: str
    by: str | UnsetType = UNSET
    created_at: float | None = None


class GrantList(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """The stored rules for actions that don't need approval."""

    data: tuple[GrantShown, ...]
    has_more: bool
    next_cursor: str | None


class GrantRevoked(ResponseBody, frozen=True):
    """The rule is revoked. Its actions need approval again."""

    grant_id: str
    deleted: Annotated[bool, ALWAYS_TRUE]
