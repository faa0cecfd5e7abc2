"""What Model Context Protocol clients send: the message of a request, and the arguments of each tool."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.api.runs import Effort, SessionId, ShortText

ID_CHARS_MAX = 256
ID_MAX = 2**53 - 1

_RpcText = Annotated[str, msgspec.Meta(max_length=ID_CHARS_MAX)]
_RpcNumber = Annotated[int, msgspec.Meta(ge=-ID_MAX, le=ID_MAX)]
RpcId = _RpcNumber | _RpcText


class RpcMessage(msgspec.Struct, kw_only=True):
    """One JSON-RPC message: a request (id and method), a notification (method), or a response (id)."""

    jsonrpc: Literal["2.0"]
    id: RpcId | UnsetType | None = UNSET
    method: Annotated[str, msgspec.Meta(max_length=ID_CHARS_MAX)] | UnsetType = UNSET
    params: dict[str, Any] | UnsetType | None = UNSET
    result: dict[str, Any] | UnsetType = UNSET
    error: dict[str, Any] | UnsetType = UNSET


class RpcResult(msgspec.Struct, kw_only=True):
    """The response to a JSON-RPC request: a result or an error."""

    jsonrpc: Literal["2.0"]
    id: RpcId | None
    result: dict[str, Any] | UnsetType = UNSET
    error: dict[str, Any] | UnsetType = UNSET


class _Arguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a tool is called with."""


class RunAgentArguments(_Arguments):
    """Give the agent a task and wait for its answer."""

    message: Annotated[str, msgspec.Meta(min_length=1, description="The task, in plain words.")]
    session_id: Annotated[
        SessionId, msgspec.Meta(description="Continue this session; leave it out to start a new one.")
    ] = ""
    workspace: Annotated[
        str, msgspec.Meta(description="The directory to work in: an absolute path on the server.")
    ] = ""
    model: Annotated[ShortText, msgspec.Meta(description="A configured target instead of the default.")] = ""
    effort: Annotated[
        Effort | None, msgspec.Meta(description="How much the model should think, if it can choose.")
    ] = None
    instructions: Annotated[str, msgspec.Meta(description="Further instructions for this run only.")] = ""


class AnswerArguments(_Arguments):
    """Answer an approval or a question that a run waits for, and wait for what follows."""

    id: Annotated[ShortText, msgspec.Meta(min_length=1, description="The id of the approval or question.")]
    answer: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            description="For an approval, one of its choices, such as once or deny; for a question, a text.",
        ),
    ]
    reason: Annotated[str, msgspec.Meta(description="Why; the agent is told.")] = ""


class RunArguments(_Arguments):
    """Show the state of a run, with its answer if it has ended."""

    run_id: Annotated[ShortText, msgspec.Meta(min_length=1, description="The id of the run.")]


class StopArguments(RunArguments):
    """Stop a run, with everything that it has started."""


class SendArguments(_Arguments):
    """Message an agent while it works."""

    run_id: Annotated[ShortText, msgspec.Meta(min_length=1, description="The id of the run.")]
    message: Annotated[str, msgspec.Meta(min_length=1, description="What to tell the agent.")]


class ListSessionsArguments(_Arguments):
    """List sessions, newest first."""

    query: Annotated[str, msgspec.Meta(description="Only sessions that contain these words.")] = ""
    limit: Annotated[int, msgspec.Meta(ge=1, le=100, description="How many.")] = 20
    cursor: Annotated[str, msgspec.Meta(description="`next_cursor` of the previous page.")] = ""


class ReadSessionArguments(_Arguments):
    """Read what was said and done in a session, the newest entries first cut to a limit."""

    session_id: Annotated[SessionId, msgspec.Meta(min_length=1, description="The id of the session.")]
    limit: Annotated[int, msgspec.Meta(ge=1, le=200, description="How many entries.")] = 50
    before: Annotated[int, msgspec.Meta(ge=0, description="`next_before` of the previous page.")] = 0
