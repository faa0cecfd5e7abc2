"""What a run asks a person or its client, and how that is settled."""

from typing import TypeAlias

from holdfast.events.bases import Input, RunEvent
from holdfast.values import Action, Choice, ClientTool, ClientToolResult, GrantOffer, PlanStep, Width


class _OfApproval:
    """An event about an ask that is an approval."""

    __slots__ = ()

    @property
    def ask_id(self) -> str:
        """The ask's id, under the name that is the same for approvals and questions."""
        return self.approval_id  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  # each event declares it


class _OfQuestion:
    """An event about an ask that is a question."""

    __slots__ = ()

    @property
    def ask_id(self) -> str:
        """The ask's id, under the name that is the same for approvals and questions."""
        return self.question_id  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  # each event declares it


class ApprovalAsked(RunEvent, _OfApproval, frozen=True, kw_only=True, tag="approval.asked"):
    """A person must decide on one exact action."""

    approval_id: str
    tool_call_id: str
    action: Action
    findings: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ("once", "session", "always", "deny")
    expires_at_ms: int = 0
    headline: str = ""  # what it does and why it asks, in one line
    offers: tuple[GrantOffer, ...] = ()  # what "session" and "always" can store, narrowest first
    once_because: str = ""  # why "session" and "always" are not among the choices


class ApprovalAnswered(Input, _OfApproval, frozen=True, kw_only=True, tag="approval.answered"):
    """A person decided."""

    run_id: str
    approval_id: str
    choice: Choice
    by: str = ""
    reason: str = ""
    width: Width = "exact"
    steps: tuple[PlanStep, ...] = ()  # of a plan that the person changed before accepting it


class ApprovalExpired(RunEvent, _OfApproval, frozen=True, kw_only=True, tag="approval.expired"):
    """Nobody decided in time, so the action is not run."""

    approval_id: str


class ApprovalWithdrawn(RunEvent, _OfApproval, frozen=True, kw_only=True, tag="approval.withdrawn"):
    """The action is no longer wanted, so the approval can no longer be given."""

    approval_id: str
    cause: str


class QuestionAsked(RunEvent, _OfQuestion, frozen=True, kw_only=True, tag="question.asked"):
    """The model, or one of its tools, asks a person."""

    question_id: str
    tool_call_id: str
    text: str
    choices: tuple[str, ...] = ()
    expires_at_ms: int = 0


class QuestionAnswered(Input, _OfQuestion, frozen=True, kw_only=True, tag="question.answered"):
    """A person answered; a `reason` says why there is no answer."""

    run_id: str
    question_id: str
    answer: str
    by: str = ""
    reason: str = ""
    client_id: str = ""  # the client's own id of what the person wrote


class QuestionExpired(RunEvent, _OfQuestion, frozen=True, kw_only=True, tag="question.expired"):
    """Nobody answered in time."""

    question_id: str


class QuestionWithdrawn(RunEvent, _OfQuestion, frozen=True, kw_only=True, tag="question.withdrawn"):
    """The question is no longer open."""

    question_id: str
    cause: str


class _OfClientTools:
    """An event about an ask that the client answers: tool calls that it runs itself."""

    __slots__ = ()

    @property
    def ask_id(self) -> str:
        """The ask's id, under the name that is the same for all asks."""
        return self.client_tools_id  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  # each event declares it


class ClientToolsAsked(RunEvent, _OfClientTools, frozen=True, kw_only=True, tag="client_tools.asked"):
    """The client must run these tool calls, which are for tools that it brought."""

    client_tools_id: str
    tool_call_ids: tuple[str, ...]
    expires_at_ms: int = 0


class ClientToolsAnswered(Input, _OfClientTools, frozen=True, kw_only=True, tag="client_tools.answered"):
    """The client returned the results; `tools` and `tool_choice` hold for the calls that follow."""

    run_id: str
    client_tools_id: str
    results: tuple[ClientToolResult, ...]
    tools: tuple[ClientTool, ...] | None = None  # None: as before
    tool_choice: str = ""
    by: str = ""


class ClientToolsExpired(RunEvent, _OfClientTools, frozen=True, kw_only=True, tag="client_tools.expired"):
    """The client returned no results in time."""

    client_tools_id: str


class ClientToolsWithdrawn(RunEvent, _OfClientTools, frozen=True, kw_only=True, tag="client_tools.withdrawn"):
    """The results are no longer wanted."""

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
