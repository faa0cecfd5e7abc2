"""Requests about a conversation that start no answer: how long its input is, and a summary of it."""

from typing import Any

from msgspec.structs import replace
from starlette.requests import Request

from holdfast.api.runs import RawInput
from holdfast.features.openai.bodies import (
    CompactedResponse,
    CompactResponseRequest,
    InputTokens,
    InputTokensRequest,
)
from holdfast.features.openai.conversations import resolve_references
from holdfast.features.openai.items import history_item, item_id
from holdfast.features.openai.parameters import responses_output
from holdfast.features.openai.response_view import usage_shown
from holdfast.features.openai.shapes import failed_response, response_failed, without_prompt
from holdfast.features.openai.shared_routes import SharedRoutes
from holdfast.folds.entries import Notice
from holdfast.folds.rows import RunRow
from holdfast.messages import ModelRequest, ToolSpec, UserMessage
from holdfast.runner.inbox import IncomingMessage
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import bad_request
from holdfast.server.runs.client_messages import GivenContext, parse_context, summary_token
from holdfast.server.runs.client_tools import declared_tools
from holdfast.server.runs.history import await_continuation, await_session_history, response_id
from holdfast.server.runs.requests import headers_of
from holdfast.server.streams.waiting import ResponseSpan, wait_for
from holdfast.server.transport.bodies import json_response, parsed
from holdfast.server.transport.once import earlier_response, once_key
from holdfast.tools.on_demand import declared
from holdfast.values import COMPACT, OPENAI, HistoryMessage, RunSettings

ESTIMATE = {"X-Holdfast-Estimate": "true"}


class OpenAIContextRoutes:
    """POST /v1/responses/input_tokens and /compact for an agent."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps
        self._runs = parts.runs
        self._disconnects = parts.disconnects
        self._names = parts.routes(SharedRoutes).names

    async def input_tokens(self, request: Request, body: bytes) -> Any:
        """POST /v1/responses/input_tokens for an agent."""
        deps = self._deps
        wanted = await parsed(body, deps.limits, InputTokensRequest)
        await self._names.insist_on_agent(wanted.model, request)
        session_id = wanted.conversation_name
        given = await self._given(wanted.input, wanted.previous_response_id or "", session_id=session_id)
        brought = {
            tool.name: ToolSpec(tool.name, tool.description, tool.schema)
            for tool in declared_tools(wanted.tools, wanted.tool_choice).tools
        }
        await deps.agent.until_opened()
        own = declared(deps.agent.tools_now().without(brought), others=brought).specs
        asked = ModelRequest(
            messages=tuple(UserMessage(one.content, one.parts) for one in given.messages),
            instructions="\n".join(
                (
                    "" if without_prompt(request) else deps.agent.prompt,
                    deps.agent.instructions,
                    wanted.instructions or "",
                    given.instructions,
                )
            ),
            tools=(*own, *brought.values()),
            output=await responses_output(wanted.text),
        )
        counted = InputTokens(object="response.input_tokens", input_tokens=asked.input_tokens)
        return json_response(counted, headers=ESTIMATE)

    async def compact(self, request: Request, body: bytes) -> Any:
        """POST /v1/responses/compact for an agent: a separate run in a new session."""
        deps = self._deps
        wanted = await parsed(body, deps.limits, CompactResponseRequest)
        await self._names.insist_on_agent(wanted.model, request)
        key = once_key(request, body, deps)
        sent = await earlier_response(key, deps, status=202)
        if sent is None:
            given = await self._given(wanted.input, wanted.previous_response_id or "")
            if not given.messages:
                raise bad_request("Nothing to summarize: send 'input'", param="input")
            message = IncomingMessage(
                text=f"{COMPACT} {wanted.instructions or ''}".strip(),
                settings=RunSettings(purpose="compaction"),
                history=given.messages,
                source=OPENAI,
                attached=given.attached,
            )
            sent = await self._runs.send("", message, key=key)
        row = await self._runs.row_of_sent(sent)
        ended = await wait_for(deps, row, request, on_left=self._disconnects.read_by(row))
        if response_failed(ended):
            return failed_response(ended.run.state, headers_of(row, sent))
        return json_response(_compacted(row, ended), headers=headers_of(row, sent))

    async def _given(self, items: RawInput | None, previous: str, *, session_id: str = "") -> GivenContext:
        """The conversation so far, and the items of the request behind it; raises a Problem."""
        earlier: tuple[HistoryMessage, ...] = ()
        if previous and session_id:
            text = "You can't use 'previous_response_id' and 'conversation' together"
            raise bad_request(text, param="conversation")
        if previous:
            session_id, history = await await_continuation(self._deps, previous)
            earlier = history if history is not None else await await_session_history(self._deps, session_id)
        elif session_id:
            earlier = await await_session_history(self._deps, session_id)
        if not items:
            return GivenContext(earlier)
        for at, one in enumerate(items if isinstance(items, list) else ()):
            if isinstance(one, dict) and one.get("role") is None and not one.get("type") and "id" not in one:
                where = f"input[{at}].role"
                raise bad_request(f"Missing '{where}': set the role of the message", param=where)
        await self._deps.put_images_inline(items, param="input")
        resolved = await resolve_references(self._deps, items)
        given = parse_context(resolved, self._deps.limits, param="input")
        return replace(given, messages=(*earlier, *given.messages))


def _compacted(row: RunRow, ended: ResponseSpan) -> CompactedResponse:
    """The user's messages, and after them the summary of everything."""
    view = ended.run.view
    said = [message for message in view.history or () if message.role == "user"]
    notices = [entry for entry in view.entries if isinstance(entry, Notice) and entry.notice == "compacted"]
    summary = {
        "id": item_id("cmp", row.run_id, 0),
        "type": "compaction",
        "encrypted_content": summary_token(notices[-1].summary),
    }
    return CompactedResponse(
        id=response_id(row.run_id),
        object="response.compaction",
        created_at=row.created_ms // 1000,
        output=(*(history_item(row.run_id, f"in{at}", one) for at, one in enumerate(said)), summary),
        usage=usage_shown(ended.used),
    )
