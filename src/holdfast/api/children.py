"""The bodies of responses about sub-agents."""

from typing import Annotated

import msgspec

from holdfast.api.approvals import OpenAsk
from holdfast.api.body import ResponseBody
from holdfast.api.runs import UsageShown
from holdfast.values import OutcomeKind


class ParentShown(ResponseBody, frozen=True):
    """Whose sub-agent a session is."""

    session_id: str
    run_id: str
    tool_call_id: str
    name: Annotated[str, msgspec.Meta(description="The sub-agent's own name.")]
    root_session_id: Annotated[str, msgspec.Meta(description="The session that is no sub-agent itself.")]


class ChildShown(ResponseBody, frozen=True, kw_only=True):
    """A sub-agent: whose it is, what it does, and what it and its own sub-agents have used so far."""

    session_id: str
    run_id: str
    parent_session_id: str
    parent_run_id: str
    tool_call_id: str
    name: str
    depth: Annotated[int, msgspec.Meta(description="1 for a sub-agent of the session that was asked for.")]
    status: Annotated[
        str,
        msgspec.Meta(
            description=(
                "starting, queued, running, waiting_for_approval, waiting_for_children, stopping or ended"
            )
        ),
    ]
    task: str = ""
    last_line: str = ""
    background: bool = False
    outcome: OutcomeKind | None = None
    cause: str = ""
    usage: UsageShown | None = None
    started_at: float = 0.0
    ended_at: float | None = None
    asks: Annotated[
        tuple[OpenAsk, ...],
        msgspec.Meta(description="What it asks a person now, as GET /v1/approvals lists it."),
    ] = ()


class ChildList(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """The sub-agents of a session, each before its own; `parent` if the session is one itself."""

    session_id: str
    data: tuple[ChildShown, ...]
    parent: ParentShown | None = None
    has_more: bool = False
