"""Response bodies for sub-agents."""

from typing import Annotated

import msgspec

from holdfast.api.approvals import OpenAsk
from holdfast.api.body import ResponseBody
from holdfast.api.runs import UsageShown
from holdfast.values import OutcomeKind


class ParentShown(ResponseBody, frozen=True):
    """The parent of a sub-agent's session."""

    session_id: str
    run_id: str
    tool_call_id: str
    name: Annotated[str, msgspec.Meta(description="The sub-agent's own name.")]
    root_session_id: Annotated[str, msgspec.Meta(description="The session at the root of the tree.")]


class ChildShown(ResponseBody, frozen=True, kw_only=True):
    """A sub-agent: its parent, status and usage so far, including its own sub-agents."""

    session_id: str
    run_id: str
    parent_session_id: str
    parent_run_id: str
    tool_call_id: str
    name: str
    depth: Annotated[int, msgspec.Meta(description="1 for a direct sub-agent of the requested session.")]
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
        msgspec.Meta(description="Its pending requests, as listed by GET /v1/approvals."),
    ] = ()


class ChildList(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """The sub-agents of a session, parents first. `parent` is set if the session is a sub-agent itself."""

    session_id: str
    data: tuple[ChildShown, ...]
    parent: ParentShown | None = None
    has_more: bool = False
