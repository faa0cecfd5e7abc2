"""Approvals, questions and client tool calls, and how they're resolved."""

from typing import TypeAlias

from holdfast.events.bases import Input, RunEvent
from holdfast.values import Action, Choice, ClientTool, ClientToolResult, GrantOffer, PlanStep, Width


class _OfApproval:
    """An event about an approval."""

    __slots__ = ()

    @property
    def ask_id(self) -> str:
        """Return the id, under a name shared by approvals and questions."""
        return self.approval_id  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  # each event declares it


class _OfQuestion:
    """An event about a question."""

    __slots__ = ()

    @property
    def ask_id(self) -> str:
        """Return the id, under a name shared by approvals and questions."""
        return self.question_id  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  # each event declares it


class ApprovalAsked(RunEvent, _OfApproval, frozen=True, kw_only=True, tag="approval.asked"):
    """One exact action needs a person's approval."""

    approval_id: str
    tool_call_id: str
    action: Action
    findings: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ("once", "session", "always", "deny")
    expires_at_ms: int = 0
    headline: str = ""  # the action and the reason for the approval, in one line
    offers: tuple[GrantOffer, ...] = ()  # what "session" and "always" can store, narrowest first
    once_because: str = ""  # why "session" and "always" aren't available


class ApprovalAnswered(Input, _OfApproval, frozen=True, kw_only=True, tag="approval.answered"):
    """A person answered an approval."""

    run_id: str
    approval_id: str
    choice: Choice
    by: str = ""
    reason: str = ""
    width: Width = "exact"
    steps: tuple[PlanStep, ...] = ()  # of a plan that the person edited before accepting it


class ApprovalExpired(RunEvent, _OfApproval, frozen=True, kw_only=True, tag="approval.expired"):
    """No one answered in time, so the action isn't run."""

    approval_id: str


class ApprovalWithdrawn(RunEvent, _OfApproval, frozen=True, kw_only=True, tag="approval.withdrawn"):
    """The approval was withdrawn because the action is no longer needed."""

    approval_id: str
    cause: str


class QuestionAsked(RunEvent, _OfQuestion, frozen=True, kw_only=True, tag="question.asked"):
    """The model, or one of its tools, asked a person a question."""

    question_id: str
    tool_call_id: str
    text: str
    choices: tuple[str, ...] = ()
    expires_at_ms: int = 0


class QuestionAnswered(Input, _OfQuestion, frozen=True, kw_only=True, tag="question.answered"):
    """A person answered a question. `reason` explains a missing answer."""

    run_id: str
    question_id: str
    answer: str
    by: str = ""
    reason: str = ""
    client_id: str = ""  # the client's id of the person's message


class QuestionExpired(RunEvent, _OfQuestion, frozen=True, kw_only=True, tag="question.expired"):
    """No one answered the question in time."""

    question_id: str


class QuestionWithdrawn(RunEvent, _OfQuestion, frozen=True, kw_only=True, tag="question.withdrawn"):
    """The question was withdrawn."""

    question_id: str
    cause: str


class _OfClientTools:
    """An event about tool calls that the client runs."""

    __slots__ = ()

    @property
    def ask_id(self) -> str:
        """Return the id, under a name shared by all requests."""
        return self.client_tools_id  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  # each event declares it


class ClientToolsAsked(RunEvent, _OfClientTools, frozen=True, kw_only=True, tag="client_tools.asked"):
    """The client must run these calls to its own tools."""

    client_tools_id: str
    tool_call_ids: tuple[str, ...]
    expires_at_ms: int = 0


class ClientToolsAnswered(Input, _OfClientTools, frozen=True, kw_only=True, tag="client_tools.answered"):
    """The client returned the results. `tools` and `tool_choice` apply to the next calls."""

    run_id: str
    client_tools_id: str
    results: tuple[ClientToolResult, ...]
    tools: tuple[ClientTool, ...] | None = None  # None: unchanged
    tool_choice: str = ""
    by: str = ""


class ClientToolsExpired(RunEvent, _OfClientTools, frozen=True, kw_only=True, tag="client_tools.expired"):
    """The client returned no results in time."""

    client_tools_id: str


class ClientToolsWithdrawn(RunEvent, _OfClientTools, frozen=True, kw_only=True, tag="client_tools.withdrawn"):
    """The results are no longer needed."""

    client_tools_id: str
    cause: str


PersonAsked: TypeAlias = ApprovalAsked | QuestionAsked
AskAsked: TypeAlias = PersonAsked | ClientToolsAsked
# fmt: off
AskSettled: TypeAlias = (
    ApprovalAnswered | ApprovalExpired | ApprovalWithdrawn | QuestionAnswered | QuestionExpired
    | QuestionWithdrawn | ClientToolsAnswered | ClientToolsExpired | ClientToolsWithdrawn
)
# fmt: on
