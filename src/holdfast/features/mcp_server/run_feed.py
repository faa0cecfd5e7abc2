"""The stream of a call that runs the agent: progress, what a person is asked, and the result."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Sequence

import msgspec
from msgspec import Struct
from typing_extensions import override

from holdfast import events as e
from holdfast.features.mcp_server.bodies import RpcId
from holdfast.features.mcp_server.frames import (
    elicitation,
    input_requests,
    progress,
    progress_text,
    run_result,
    waiting_result,
)
from holdfast.features.mcp_server.peer import McpPeer
from holdfast.features.mcp_server.rpc import Json, notification, result_body, sse
from holdfast.folds.asks import ask_event
from holdfast.folds.rows import RunRow
from holdfast.folds.session_fold import RunReadModel
from holdfast.interfaces.journal import Record
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import bad_request
from holdfast.server.streams.shared_frames import Added
from holdfast.server.streams.span_feed import SpanFeed

RETRY_MS = 2_000  # before a client comes back: a restart takes about as long
CURSOR_CHARS_MAX = 4_096
_STEP = 0.001  # between two events, for progress that isn't one


class StreamCursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a reader is in the stream of a call; it says everything that the rest of the stream needs."""

    run_id: str
    seq: int
    rpc_id: RpcId
    token: RpcId | None = None

    def encoded(self, seq: int) -> str:
        """The id of the event at this seq."""
        body = msgspec.json.encode(msgspec.structs.replace(self, seq=seq))
        return urlsafe_b64encode(body).decode().rstrip("=")


def cursor_in(given: str) -> StreamCursor:
    """The cursor that an event's id stands for; raises a Problem."""
    try:
        if len(given) > CURSOR_CHARS_MAX:
            raise ValueError("too long")
        body = urlsafe_b64decode(given + "=" * (-len(given) % 4))
        return msgspec.json.decode(body, type=StreamCursor)
    except (ValueError, msgspec.MsgspecError):
        text = "'Last-Event-ID' isn't an event id of this server"
        raise bad_request(text, param="Last-Event-ID") from None


class RunCall(Struct, frozen=True):
    """A call that a run answers, and what its client can be asked."""

    row: RunRow
    cursor: StreamCursor
    peer: McpPeer
    key_name: str
    may_approve: bool

    def may_answer(self, asked: e.PersonAsked) -> bool:
        """Whether the client's key may answer this."""
        return self.may_approve or isinstance(asked, e.QuestionAsked)

    def can_ask(self, asked: e.PersonAsked) -> bool:
        """Whether the client can show a person the form, and may bring the answer."""
        return self.peer.can_elicit and self.may_answer(asked)


class RunCallFeed(SpanFeed):
    """The frames of a call after some event of its run."""

    def __init__(
        self, deps: RouteDeps, call: RunCall, *, after: int, settled: Collection[str] = frozenset()
    ) -> None:
        super().__init__(deps.store, deps.folds, call.row, after=after, pending=[])
        if call.peer.is_primed:
            self._pending = [f"id: {call.cursor.encoded(after)}\nretry: {RETRY_MS}\ndata: \n\n".encode()]
        self._deps = deps
        self._call = call
        self._settled_before = settled  # ids of approvals and questions that were already shown
        self._at = float(after)  # progress so far
        self._shown = ""

    @override
    def _encoded(self, record: Record, added: Added, run: RunReadModel) -> list[bytes]:
        del added  # an answer is sent as a whole
        event, told = ask_event(record.event), list[Json]()
        if (text := progress_text(event, run)) and (shown := self._progress(record.seq, text)):
            told.append(shown)
        match event:
            case e.RunEnded():
                self.is_over = True
                told = [self._result(run_result(run, self._row))]
            case e.ApprovalAsked() | e.QuestionAsked():
                told += self._asked(event, run)
            case e.ApprovalAnswered() | e.QuestionAnswered() if event.by == self._call.key_name:
                pass  # this client has probably answered it itself
            case _ if isinstance(event, e.AskSettled) and self._call.peer.can_elicit:
                told += self._settled(event.ask_id)
            case _:
                pass
        # A reader that resumes after an event has everything that it brought, so the last frame has the id.
        last = len(told) - 1
        cursor = self._call.cursor.encoded(record.seq)
        return [sse(one, cursor=cursor if at == last else "") for at, one in enumerate(told)]

    def _asked(self, asked: e.PersonAsked, run: RunReadModel) -> list[Json]:
        ask = run.state.person_asks.get(asked.ask_id)
        if ask is None or ask.state != "open" or asked.ask_id in self._settled_before:
            return []
        if self._call.can_ask(asked) and not self._call.peer.is_modern:
            request = {"jsonrpc": "2.0", "id": asked.ask_id, "method": "elicitation/create"}
            return [request | {"params": elicitation(asked)}]
        self.is_over = True
        if self._call.can_ask(asked):
            return [self._result(input_required(self._row, {asked.ask_id: asked}))]
        can_answer = self._call.may_answer(asked)
        return [self._result(waiting_result(asked, self._row, can_answer=can_answer))]

    def _settled(self, ask_id: str) -> list[Json]:
        """The form needs no answer any more."""
        if self._call.peer.is_modern:
            return []
        params = {"requestId": ask_id, "reason": "It was resolved elsewhere"}
        return [notification("notifications/cancelled", params)]

    def _result(self, result: Json) -> Json:
        if self._call.peer.is_modern:
            result = {"resultType": "complete", **result}
        return result_body(self._call.cursor.rpc_id, result)

    def _progress(self, at: float, text: str) -> Json | None:
        token = self._call.cursor.token
        if token is None:
            return None
        self._at = max(at, self._at + _STEP)
        return progress(token, self._at, text)

    @override
    def ephemeral_frames(self, silent_s: float) -> Sequence[bytes]:
        line = self._line(silent_s)
        if silent_s < self._deps.limits.live_after_s or not line or line == self._shown:
            return ()
        self._shown = line
        shown = self._progress(self._at + _STEP, line)
        return () if shown is None else [sse(shown)]

    @override
    def next_check_s(self, silent_s: float) -> float | None:
        return None if self._call.cursor.token is None else self._deps.limits.next_live_s(silent_s)

    def _line(self, silent_s: float) -> str | None:
        """The live line; None while the run isn't active."""
        return self._deps.lives.line(self._row.session_id, self._row.run_id, silent_s=silent_s)


def input_required(row: RunRow, asks: dict[str, e.PersonAsked]) -> Json:
    """A result that asks the client to call again with the answers of a person."""
    state = {"requestState": row.run_id}
    return {"resultType": "input_required", "inputRequests": input_requests(asks), **state}
