"""Session chat: sends a message and returns its answer, whole or as a stream."""

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import override

from holdfast.features.hermes.bodies import (
    AssistantSaid,
    SessionChatCompletion,
    SessionChatFailed,
    SessionChatRequest,
)
from holdfast.folds.rows import RunRow
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem
from holdfast.server.runs.requests import headers_of, message_of, raw_headers, target_named
from holdfast.server.runs.run_report import code_of, error_of, usage_of
from holdfast.server.runs.run_state import status_of
from holdfast.server.runs.runs import put_images_inline
from holdfast.server.streams.feeds import Live
from holdfast.server.streams.shared_frames import HermesFeed
from holdfast.server.streams.stream import EventStream, Feed
from holdfast.server.streams.waiting import wait_for
from holdfast.server.transport.bodies import checked_session_id, json_response, parsed, read_body
from holdfast.server.transport.once import earlier_response, once_for

_encode = msgspec.json.Encoder().encode


class ChatRoutes:
    """The chat routes of a session."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps
        self._runs = parts.runs

    async def chat(self, request: Request) -> Response:
        """POST /api/sessions/{session_id}/chat."""
        row, headers = await self._begun(request)
        ended = await wait_for(self._deps, row, request, on_left=await self._runs.read_by(row))
        run, output = ended.run.state, ended.run.output
        status = status_of(run)
        if status != "completed":
            problem = Problem(502, error_of(run), code=code_of(run))
            failed = SessionChatFailed(
                session_id=row.session_id,
                run_id=row.run_id,
                status=status,
                error=problem.body.error,
                output=output,
            )
            return json_response(failed, problem.status, headers=headers)
        completion = SessionChatCompletion(
            session_id=row.session_id,
            run_id=row.run_id,
            status=status,
            message=AssistantSaid(role="assistant", content=output),
            usage=usage_of(run),
        )
        return json_response(completion, headers=headers)

    async def stream(self, request: Request) -> Any:
        """POST /api/sessions/{session_id}/chat/stream."""
        deps = self._deps
        with deps.streams.reserve(deps.limits.subscribers_max) as place:
            row, headers = await self._begun(request)
            live = Live(
                lambda silent_s: deps.peers.lines(row.session_id, silent_s=silent_s),
                limits=deps.limits,
                view="hermes",
            )
            frames = await deps.folds.frames(row)
            feed = _Named(HermesFeed(deps.store, row, after=0, live=live, frames=frames), row)
            on_left = await self._runs.read_by(row)
            return place.assign_to(
                EventStream(
                    feed, deps.streams, limits=deps.limits, headers=raw_headers(headers), on_left=on_left
                )
            )

    async def _begun(self, request: Request) -> tuple[RunRow, dict[str, str]]:
        """The message's run, and the response headers about it."""
        deps = self._deps
        body = await read_body(request, deps.limits)
        wanted = await parsed(body, deps.limits, SessionChatRequest)
        wanted.instructions = wanted.system_message or wanted.instructions
        await put_images_inline(deps, wanted)
        if wanted.provider:
            wanted.model = target_named(wanted.provider, wanted.model or "", deps.options.targets).name
        message = message_of(wanted, deps.limits)
        session_id = checked_session_id(request.path_params["session_id"])
        key = once_for(request, body, deps, session_id=session_id, message=message)
        sent = await earlier_response(key, deps, status=202)
        sent = sent or await self._runs.send(session_id, message, key=key)
        row = await self._runs.row_of_sent(sent)
        return row, headers_of(row, sent)


class _Named(Feed):
    """Frames with an event name, as clients of chat streams expect them, and a last frame `done`.

    Frames without an id aren't part of the log; they're for clients that know only these names.
    """

    def __init__(self, feed: HermesFeed, row: RunRow) -> None:
        self._feed = feed
        self._over = False
        self._about = {"run_id": row.run_id, "session_id": row.session_id}
        self._message_id = f"msg_{row.run_id.removeprefix('run_')}"

    @override
    async def more(self) -> Sequence[bytes] | None:
        if self._over:
            return None
        frames = await self._feed.more()
        if frames is None:
            return None
        self._over = self._feed.is_over
        named = [one for frame in frames if frame.startswith(b"id: ") for one in self._named(frame)]
        return [*named, self._said("done")] if self._over else named

    def _named(self, frame: bytes) -> list[bytes]:
        line, _, data = frame.partition(b"\ndata: ")
        body: dict[str, Any] = msgspec.json.decode(data)
        about = {"message_id": self._message_id}
        head, name = line + b"\n", body["event"]
        body["ts"] = body["timestamp"]
        match name:
            case "run.started":
                message = {"id": self._message_id, "role": "assistant"}
                return [head + self._said(name, **body), self._said("message.started", message=message)]
            case "message.delta":
                return [head + self._said("assistant.delta", **body | about)]
            case "tool.started" | "tool.completed":
                return [head + self._said(name, **body | about, tool_name=body["tool"])]
            case "reasoning.available":
                thought = self._said("tool.progress", **about, tool_name="_thinking", delta=body["text"])
                return [head + self._said(name, **body), thought]
            case "run.completed":
                ends = {"completed": True, "partial": False, "interrupted": False}
                said = self._said("assistant.completed", **about, content=body["output"], **ends)
                messages = [{"role": "assistant", "content": body["output"]}]
                return [said, head + self._said(name, **body | about, completed=True, messages=messages)]
            case "run.failed":
                error = self._said("error", message=body["error"], code=body["code"])
                return [error, head + self._said(name, **body | about)]
            case _:
                return [head + self._said(name, **body)]

    def _said(self, name: str, /, **fields: Any) -> bytes:
        return b"event: %b\ndata: %b\n\n" % (name.encode(), _encode({**self._about, **fields, "event": name}))

    @override
    def wake(self) -> None:
        self._feed.wake()

    @override
    def ephemeral_frames(self, silent_s: float) -> Sequence[bytes]:
        return self._feed.ephemeral_frames(silent_s)

    @override
    def next_check_s(self, silent_s: float) -> float | None:
        return self._feed.next_check_s(silent_s)
