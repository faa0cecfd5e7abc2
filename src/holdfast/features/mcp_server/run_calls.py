"""Calls that run the agent: begun once, read again, answered and cancelled; the log is their only memory.

The stream of a call that runs the agent: progress, what a person is asked, and the result.

Locates a request: at its run or, for a sub-agent, at the root run of its tree.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any, cast

import msgspec
from msgspec import Struct, field
from typing_extensions import override

from holdfast import events as e
from holdfast.features.mcp_server.bodies import AnswerArguments, RpcId, RunAgentArguments, SendArguments
from holdfast.features.mcp_server.frames import (
    elicitation,
    elicited_answer,
    input_requests,
    progress,
    progress_text,
    run_result,
    task,
    waiting_result,
)
from holdfast.features.mcp_server.peer import McpPeer
from holdfast.features.mcp_server.rpc import INVALID_PARAMS, Json, RpcError, notification, result_body, sse
from holdfast.features.mcp_server.service import McpCall, McpCaller, McpStream
from holdfast.folds.asks import ask_event
from holdfast.folds.rows import AskRow, RunRow
from holdfast.folds.session_fold import RunFold
from holdfast.interfaces.index import RunQuery
from holdfast.interfaces.journal import Record
from holdfast.runner.asks import AskAnswer
from holdfast.runner.inbox import IncomingMessage
from holdfast.server.access.caller import KEY_NAME, KEY_SCOPES, check_scope
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem, bad_request
from holdfast.server.runs.inputs import answer_of, answered_or_stale
from holdfast.server.runs.runs import RunRoutes, known_run
from holdfast.server.sessions.listing import DEPTH_MAX, parent_link
from holdfast.server.streams.shared_frames import Added, SpanFeed
from holdfast.server.transport.bodies import checked_session_id
from holdfast.server.transport.once import KEPT_MS, KEY_CHARS_MAX, OWN, OnceKey, earlier_response
from holdfast.server.upkeep.disconnects import Disconnects
from holdfast.values import RunSettings


class AskPlace(Struct, frozen=True):
    """A run, and the event in its log that tells of the ask."""

    row: RunRow
    seq: int


async def top_place(deps: RouteDeps, ask: AskRow) -> AskPlace:
    """Return the topmost run with a copy of the request; raises a Problem if its run is gone."""
    place = AskPlace(await known_run(deps, ask.run_id), ask.seq)
    for _ in range(DEPTH_MAX):
        link = await parent_link(deps.store, place.row.session_id)
        row = await deps.store.run(link.run_id) if link is not None else None
        if row is None:
            break
        told = (await deps.folds.run(row)).state.person_asks.get(ask.ask_id)
        if told is None:
            break
        place = AskPlace(row, told.seq)
    return place


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
    def _encoded(self, record: Record, added: Added, run: RunFold) -> list[bytes]:
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

    def _asked(self, asked: e.PersonAsked, run: RunFold) -> list[Json]:
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
        return self._deps.peers.line(self._row.session_id, self._row.run_id, silent_s=silent_s)


def input_required(row: RunRow, asks: dict[str, e.PersonAsked]) -> Json:
    """A result that asks the client to call again with the answers of a person."""
    state = {"requestState": row.run_id}
    return {"resultType": "input_required", "inputRequests": input_requests(asks), **state}


ONCE_META = "holdfast/idempotency-key"
CALL, REQUEST = "mcp_call", "mcp_request"  # in a run's metadata: by what its client may cancel it
OPEN_RUNS_MAX = 1_000


class _Names(Struct, frozen=True):
    """The names under which the client knows a call, hashed with its key's name."""

    by: str
    of: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def first(self) -> str:
        """The one that a repeated call has too; empty if there's none."""
        return next(iter(self.of.values()), "")


class RunCalls:
    """Starts runs for calls, and tells of them."""

    def __init__(self, deps: RouteDeps, runs: RunRoutes, disconnects: Disconnects) -> None:
        self._deps = deps
        self._runs = runs
        self._disconnects = disconnects

    async def run(self, call: McpCall, given: RunAgentArguments) -> Json | McpStream:
        """The tool `run_agent`: a task for clients that know tasks, else a stream."""
        if "inputResponses" in call.params or "requestState" in call.params:
            return await self._continued(call)
        if given.session_id:
            checked_session_id(given.session_id)
        key = self.once_key(call, given)
        sent = await earlier_response(key, self._deps, status=202)
        if sent is None:
            message = IncomingMessage(text=given.message, settings=_settings(given, _names(call)))
            sent = await self._runs.send(given.session_id, message, key=key)
        row = await self._runs.row_of_sent(sent)
        return await self.told(call, row, after=row.first_seq - 1)

    async def answer(self, call: McpCall, given: AnswerArguments) -> Json | McpStream:
        """The tool `answer`: settles one approval or question by its id, and tells what follows."""
        ask = await self._deps.store.ask(given.id)
        if ask is None or ask.kind == "client_tools":
            text = f"No approval or question has the id {given.id[:100]}"
            raise Problem(404, text, code="ask_not_found", param="id")
        row = await known_run(self._deps, ask.run_id)
        found = (await self._deps.folds.run(row)).state.asks[given.id]
        answer = await self._checked_answer(call.caller, found.asked, (given.answer, given.reason), row)
        if found.state == "open":
            answered_or_stale(await self._deps.inbox.answer_all({given.id: answer}))
        elif not _names(call).first:
            text = "This approval or question was already answered, or it expired or was withdrawn"
            raise Problem(409, text, code="ask_stale", param="id")
        # The following is about the run that the client started, not a sub-agent's.
        place = await top_place(self._deps, ask)
        return await self.told(call, place.row, after=place.seq)

    async def told(self, call: McpCall, row: RunRow, *, after: int) -> Json | McpStream:
        """Return a task or the stream of the run, depending on the client."""
        caller = call.caller
        if caller.peer.has_tasks:
            run = await self._deps.folds.run(row)
            return {**task(run, row, asks={}), "resultType": "task"}
        cursor = StreamCursor(row.run_id, after, call.id, call.progress_token)
        if caller.last_event_id:
            after = max(after, self._checked(cursor_in(caller.last_event_id), row).seq)
        return await self._stream(caller, row, cursor, after=after, returns=bool(_names(call).first))

    async def resumed(self, caller: McpCaller) -> McpStream:
        """The rest of a stream, for a client that lost it."""
        cursor = cursor_in(caller.last_event_id)
        row = self._checked_row(await self._deps.store.run(cursor.run_id))
        cursor = self._checked(cursor, row)
        return await self._stream(caller, row, cursor, after=cursor.seq, returns=True)

    async def cancelled(self, caller: McpCaller, rpc_id: RpcId) -> None:
        """Stop the run of a call, if it isn't over."""
        names = _names_of(caller, rpc_id, caller.idempotency_key)
        wanted = set(names.of.items())
        for row in await self._open_runs() if wanted else ():
            if row.api_key != names.by:
                continue
            run = (await self._deps.folds.run(row)).state
            if wanted & set(run.settings.metadata.items()):
                await self._deps.inbox.stop(row.session_id, row.run_id, by=names.by)

    async def _open_runs(self) -> list[RunRow]:
        wanted = [RunQuery(limit=OPEN_RUNS_MAX, status=status) for status in ("running", "queued")]
        return [row for query in wanted for row in await self._deps.store.runs(query)]

    async def resolve(self, caller: McpCaller, row: RunRow, responses: Mapping[str, object]) -> None:
        """Resolve what a person answered, by id; requests that are resolved already stay as they are."""
        run = (await self._deps.folds.run(row)).state
        read = dict[str, AskAnswer]()
        for ask_id, given in responses.items():
            ask = run.person_asks.get(ask_id)
            if ask is None or ask.state != "open" or isinstance(ask.asked, e.ClientToolsAsked):
                continue
            try:
                fields = cast("Json", given) if isinstance(given, dict) else {}
                elicited = elicited_answer(ask.asked, fields)
            except ValueError as error:
                raise RpcError(INVALID_PARAMS, f"Invalid answer to {ask_id[:100]}: {error}") from None
            read[ask_id] = await self._checked_answer(caller, ask.asked, elicited, row)
        answered_or_stale(await self._deps.inbox.answer_all(read))

    async def _checked_answer(
        self, caller: McpCaller, asked: e.AskAsked, given: tuple[str, str], row: RunRow
    ) -> AskAnswer:
        """The verdict or answer of the caller; raises a Problem if the caller can't give it."""
        if isinstance(asked, e.ApprovalAsked):
            check_scope(caller.scope, "approve")
        text, reason = given
        mode_max = self._deps.mode_access.allowed()[-1]
        answer = answer_of(asked, text, by=caller.scope[KEY_NAME], reason=reason, mode_max=mode_max)
        await self._deps.workspaces.check_answer(row, answer)
        return answer

    def may_approve(self, caller: McpCaller) -> bool:
        """Whether the client's key may approve actions."""
        return "approve" in caller.scope.get(KEY_SCOPES, frozenset())

    def open_asks(self, caller: McpCaller, run: RunFold) -> Mapping[str, e.PersonAsked]:
        """Return the requests the client can show to a person, by id."""
        if not caller.peer.can_elicit:
            return {}
        kinds = (e.QuestionAsked, e.ApprovalAsked) if self.may_approve(caller) else (e.QuestionAsked,)
        asks = (ask.asked for ask in run.state.open_person_asks)
        return {asked.ask_id: asked for asked in asks if isinstance(asked, kinds)}

    async def _continued(self, call: McpCall) -> Json | McpStream:
        """The same call again, with the answers of a person."""
        state: Any = call.params.get("requestState")
        responses: Any = call.params.get("inputResponses", {})
        if not isinstance(state, str) or not isinstance(responses, dict):
            raise RpcError(INVALID_PARAMS, "Send 'requestState' unchanged, and 'inputResponses' as an object")
        row = self._checked_row(await self._deps.store.run(state))
        await self.resolve(call.caller, row, cast("dict[str, object]", responses))
        return await self.told(call, row, after=row.first_seq - 1)

    async def _stream(
        self, caller: McpCaller, row: RunRow, cursor: StreamCursor, *, after: int, returns: bool
    ) -> McpStream:
        """The stream; what the reader's leaving means depends on whether it can come back."""
        call = RunCall(row, cursor, caller.peer, caller.scope[KEY_NAME], self.may_approve(caller))
        if after > await self._deps.store.last_seq(row.session_id):
            raise bad_request("'Last-Event-ID' refers to an event that doesn't exist", param="Last-Event-ID")
        run = await self._deps.folds.run(row)
        if run.terminal_seq:
            after = min(after, run.terminal_seq - 1)  # readers after the end get the result again
        settled = {ask_id for ask_id, ask in run.state.person_asks.items() if ask.state != "open"}
        feed = RunCallFeed(self._deps, call, after=after, settled=settled)
        if not caller.peer.is_modern or row.status == "ended":
            return McpStream(feed)  # up to 2025, only `notifications/cancelled` cancels
        grace_s = None if returns else 0.0
        return McpStream(feed, self._disconnects.read_by(row, is_told_of_asks=True, grace_s=grace_s))

    def once_key(self, call: McpCall, given: RunAgentArguments | SendArguments) -> OnceKey | None:
        """Return the idempotency key of the call; None if the client can't repeat it."""
        name = _names(call).first
        if not name:
            return None
        digest = sha256(msgspec.json.encode([type(given).__name__, given])).hexdigest()
        return OnceKey(f"{OWN}mcp:{name}", digest, self._deps.clock.now_ms() + KEPT_MS)

    def _checked_row(self, row: RunRow | None) -> RunRow:
        if row is None:
            raise RpcError(INVALID_PARAMS, "Unknown run", status=400)
        return row

    def _checked(self, cursor: StreamCursor, row: RunRow) -> StreamCursor:
        """The cursor, if it's one of this run; raises a Problem."""
        if cursor.run_id != row.run_id or cursor.seq < row.first_seq - 1:
            raise bad_request("'Last-Event-ID' belongs to another call", param="Last-Event-ID")
        return cursor


def _settings(given: RunAgentArguments, names: _Names) -> RunSettings:
    return RunSettings(
        model=given.model,
        reasoning_effort=given.effort or "",
        workspace=given.workspace,
        instructions=given.instructions,
        metadata=dict(names.of),
    )


def _names(call: McpCall) -> _Names:
    explicit: Any = call.caller.idempotency_key or call.meta.get(ONCE_META, "")
    if not isinstance(explicit, str) or len(explicit) > KEY_CHARS_MAX:
        text = f"The idempotency key must be text of up to {KEY_CHARS_MAX} characters"
        raise RpcError(INVALID_PARAMS, text)
    return _names_of(call.caller, call.id, explicit)


def _names_of(caller: McpCaller, rpc_id: RpcId, explicit: str) -> _Names:
    by: str = caller.scope[KEY_NAME]
    found: dict[str, str] = {}
    if explicit:
        found[CALL] = _hash(by, CALL, explicit)
    if caller.peer.session:
        found[REQUEST] = _hash(by, caller.peer.session, rpc_id)
    return _Names(by, found)


def _hash(*values: RpcId) -> str:
    return sha256(msgspec.json.encode(values)).hexdigest()[:32]
