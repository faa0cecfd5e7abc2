"""Calls that run the agent: begun once, read again, answered and cancelled; the log is their only memory."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, cast

import msgspec
from msgspec import Struct, field

from holdfast import events as e
from holdfast.features.mcp_server.bodies import AnswerArguments, RpcId, RunAgentArguments, SendArguments
from holdfast.features.mcp_server.frames import elicited_answer, task
from holdfast.features.mcp_server.rpc import INVALID_PARAMS, Json, RpcError
from holdfast.features.mcp_server.run_feed import RunCall, RunCallFeed, StreamCursor, cursor_in
from holdfast.features.mcp_server.service import McpCall, McpCaller, McpStream
from holdfast.folds.rows import RunRow
from holdfast.folds.session_fold import RunReadModel
from holdfast.interfaces.index import RunQuery
from holdfast.runner.asks import AskAnswer
from holdfast.runner.inbox import IncomingMessage
from holdfast.server.access.caller import KEY_NAME, KEY_SCOPES, check_scope
from holdfast.server.deps import RouteDeps
from holdfast.server.problems import Problem, bad_request
from holdfast.server.runs.ask_places import top_place
from holdfast.server.runs.inputs import answer_of, answered_or_stale
from holdfast.server.runs.runs import RunRoutes, known_run
from holdfast.server.transport.bodies import checked_session_id
from holdfast.server.transport.once import (
    KEPT_MS,
    KEY_CHARS_MAX,
    OWN,
    OnceKey,
    earlier_response,
)
from holdfast.server.upkeep.disconnects import Disconnects
from holdfast.values import RunSettings

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

    async def settled(self, caller: McpCaller, row: RunRow, responses: Mapping[str, object]) -> None:
        """Settle what a person answered, by id; whatever is settled already stays so."""
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

    def open_asks(self, caller: McpCaller, run: RunReadModel) -> Mapping[str, e.PersonAsked]:
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
        await self.settled(call.caller, row, cast("dict[str, object]", responses))
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
