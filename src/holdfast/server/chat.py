"""One message and its answer over HTTP, whole or as a stream, on a session."""

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.rows import RunRow
from holdfast.server.bodies import checked_session_id, json_answer, parsed, read_body
from holdfast.server.feeds import HermesFeed, Live, live_logs
from holdfast.server.hermes import code_of, error_of, usage_of
from holdfast.server.means import ServerMeans
from holdfast.server.once import earlier_answer, once_for
from holdfast.server.openai_shapes import headers_of, raw
from holdfast.server.problems import Problem
from holdfast.server.run_answers import status_of
from holdfast.server.run_requests import RunRequest, message_of
from holdfast.server.runs import RunRoutes
from holdfast.server.stream import EventStream
from holdfast.server.waiting import wait_for

_RENAMED = {"message.delta": "assistant.delta"}
_encode = msgspec.json.Encoder().encode


class ChatRoutes:
    """What the chat routes of a session do."""

    def __init__(self, means: ServerMeans, runs: RunRoutes) -> None:
        self._means = means
        self._runs = runs

    async def chat(self, request: Request) -> Response:
        """POST /api/sessions/{session_id}/chat."""
        row, headers = await self._begun(request)
        frames = await wait_for(self._means, row, request)
        run, output = frames.known_run, frames.output
        answer: dict[str, Any] = {"object": "hermes.session.chat.completion", "session_id": row.session_id}
        answer |= {"run_id": row.run_id, "status": status_of(run)}
        if status_of(run) != "completed":
            problem = Problem(502, error_of(run), code=code_of(run))
            return json_answer(answer | problem.body | {"output": output}, problem.status, headers=headers)
        message = {"role": "assistant", "content": output}
        return json_answer(answer | {"message": message, "usage": usage_of(run)}, headers=headers)

    async def stream(self, request: Request) -> Any:
        """POST /api/sessions/{session_id}/chat/stream."""
        means = self._means
        row, headers = await self._begun(request)
        live = Live(lambda: live_logs(means.supervisor, row.session_id), limits=means.limits, view="hermes")
        frames = means.read.frames(row, 0)
        feed = _Named(HermesFeed(means.store, row, after=0, live=live, frames=frames))
        return EventStream(feed, means.streams, limits=means.limits, headers=raw(headers))

    async def _begun(self, request: Request) -> tuple[RunRow, dict[str, str]]:
        """The run that the message has, and what the answer's headers say of it."""
        means = self._means
        body = await read_body(request, means.limits)
        wanted = await parsed(body, means.limits, RunRequest)
        message = message_of(wanted, means.limits)
        session_id = checked_session_id(request.path_params["session_id"])
        key = once_for(request, body, means, session_id=session_id, message=message)
        sent = await earlier_answer(key, means, status=202)
        sent = sent or await self._runs.send(session_id, message, key=key)
        row = await self._runs.row_of_sent(sent)
        return row, headers_of(row, sent)


class _Named:
    """Frames with an event name in front, as clients of chat streams expect them; a last one says done."""

    def __init__(self, feed: HermesFeed) -> None:
        self._feed = feed
        self._over = False

    async def more(self) -> Sequence[bytes] | None:
        """See Feed.more."""
        if self._over:
            return None
        frames = await self._feed.more()
        if frames is None:
            return None
        self._over = self._feed.is_over
        named = [_named(frame) for frame in frames if frame.startswith(b"id: ")]
        return [*named, b"event: done\ndata: [DONE]\n\n"] if self._over else named

    def nudge(self) -> None:
        """See Feed.nudge."""
        self._feed.nudge()

    def aside(self, silent_s: float) -> Sequence[bytes]:
        """See Feed.aside."""
        return self._feed.aside(silent_s)

    def look_again_s(self, silent_s: float) -> float | None:
        """See Feed.look_again_s."""
        return self._feed.look_again_s(silent_s)


def _named(frame: bytes) -> bytes:
    line, _, data = frame.partition(b"\ndata: ")
    body: dict[str, Any] = msgspec.json.decode(data)
    name: str = _RENAMED.get(body["event"]) or body["event"]
    return b"%b\nevent: %b\ndata: %b\n\n" % (line, name.encode(), _encode(body | {"event": name}))
