"""POST /ag-ui: a run of an AG-UI client, begun, continued or read again."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, cast

import msgspec
from msgspec import Struct
from starlette.requests import Request

from holdfast import events as e
from holdfast.features.ag_ui.bodies import AgUiOptions, InterruptAnswer, RunAgentInput
from holdfast.features.ag_ui.frames import AgUiFeed, AgUiView
from holdfast.features.ag_ui.messages import chat_messages
from holdfast.folds.entries import Person
from holdfast.folds.rows import RunRow
from holdfast.folds.run import Run
from holdfast.runner.asks import QUESTION_CLOSED, AskAnswer
from holdfast.runner.inbox import IncomingMessage
from holdfast.server.access.caller import KEY_NAME, check_scope
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, bad_request
from holdfast.server.runs.client_messages import ClientInput, parse_messages
from holdfast.server.runs.client_tools import (
    Declared,
    declared_tools,
    give_up_waiting,
    resumed_run,
)
from holdfast.server.runs.history import await_given_history
from holdfast.server.runs.inputs import answer_of, answered_or_stale
from holdfast.server.runs.requests import headers_of, raw_headers
from holdfast.server.runs.runs import known_run
from holdfast.server.streams.stream import EventStream
from holdfast.server.transport.bodies import (
    checked_session_id,
    converted,
    parsed,
    read_body,
)
from holdfast.server.transport.once import KEPT_MS, OWN, OnceKey, earlier_response
from holdfast.values import ApprovalMode, HistoryMessage, RunSettings


class _Begun(Struct, frozen=True):
    """A run, and the event after which this request tells of it."""

    row: RunRow
    after: int = 0


class AgUiRoutes:
    """The AG-UI route. Stateless."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps
        self._runs = parts.runs
        self._disconnects = parts.disconnects

    async def run(self, request: Request) -> Any:
        """POST /ag-ui."""
        deps = self._deps
        wanted = await parsed(await read_body(request, deps.limits), deps.limits, RunAgentInput)
        checked_session_id(wanted.thread_id, param="threadId")
        options = _options(wanted)
        with deps.streams.reserve(deps.limits.subscribers_max) as place:
            if wanted.resume:
                begun = await self._resume(request, wanted.thread_id, wanted.resume)
            else:
                begun = await self._start(request, wanted, options)
            return place.assign_to(self._stream(request, wanted, begun, options))

    def _stream(
        self, request: Request, wanted: RunAgentInput, begun: _Begun, options: AgUiOptions
    ) -> EventStream:
        deps, row = self._deps, begun.row
        view = AgUiView(row, wanted, after=begun.after)
        feed = AgUiFeed(deps, row, view, after=begun.after, seen=_cursor(request))
        is_detached = options.on_disconnect == "detach"
        left = None if is_detached else self._disconnects.read_by(row, is_told_of_asks=True)
        headers = raw_headers(headers_of(row, None))
        return EventStream(feed, deps.streams, limits=deps.limits, headers=headers, on_left=left)

    async def _start(self, request: Request, wanted: RunAgentInput, options: AgUiOptions) -> _Begun:
        """The run that the request starts, started earlier, or continues with results of its tools."""
        deps, by, thread = self._deps, request.scope[KEY_NAME], wanted.thread_id
        said = parse_messages(chat_messages(wanted.messages), deps.limits, param="messages")
        tools = [{"type": "function", **msgspec.to_builtins(tool)} for tool in wanted.tools or ()]
        declared = declared_tools(tools)
        if said.results:
            resumed = await resumed_run(deps, said, declared, client=by, param="messages", session_id=thread)
            if resumed is not None:
                return _Begun(resumed.row, resumed.after)
        key = self._key(by, wanted, said)
        sent = await earlier_response(key, deps, status=202)
        if sent is None:
            if _cursor(request) is not None:
                text = "No such run to resume. Send the request without Last-Event-ID to start one"
                raise Problem(409, text, code="run_unknown", param="Last-Event-ID")
            await self._check_free(thread)
            await give_up_waiting(deps, thread, said=said, client=by, param="messages")
            message = await self._message(wanted, options, said, declared=declared, by=by)
            sent = await self._runs.send(thread, message, key=key)
        return _Begun(await self._runs.row_of_sent(sent))

    def _key(self, by: str, wanted: RunAgentInput, said: ClientInput) -> OnceKey:
        """The client's id of the run as an idempotency key."""
        name = sha256(msgspec.json.encode([by, wanted.thread_id, wanted.run_id])).hexdigest()
        digest = sha256(msgspec.json.encode([said.text, said.parts])).hexdigest()
        return OnceKey(f"{OWN}ag-ui:{name}", digest, self._deps.clock.now_ms() + KEPT_MS)

    async def _check_free(self, thread: str) -> None:
        """Raise a Problem if the thread waits for a person: a message alone doesn't answer that."""
        if await self._deps.store.session(thread) is None:
            return
        run = (await self._deps.inbox.state(thread)).current_run
        if run is not None and run.status == "waiting_for_approval":
            open_ids = ", ".join(ask.asked.ask_id for ask in run.open_person_asks)
            text = f"The thread is waiting for an answer. Send 'resume' with an entry for {open_ids}"
            raise Problem(409, text, code="interrupt_open", param="resume")

    async def _message(
        self,
        wanted: RunAgentInput,
        options: AgUiOptions,
        said: ClientInput,
        *,
        declared: Declared,
        by: str,
    ) -> IncomingMessage:
        context = [f"{one.description}: {one.value}".removeprefix(": ") for one in wanted.context or ()]
        instructions = [options.instructions or "", said.instructions, *context]
        return IncomingMessage(
            text=said.text,
            parts=said.parts,
            settings=RunSettings(
                model=options.model or "",
                reasoning_effort=options.effort or "",
                workspace=options.workspace or "",
                instructions="\n\n".join(filter(None, instructions)),
                on_disconnect=options.on_disconnect or "",
                client_tools=declared.tools,
                client=by if declared.tools else "",
            ),
            history=await self._history(wanted.thread_id, said),
            attached=said.attached,
        )

    async def _history(self, thread: str, said: ClientInput) -> tuple[HistoryMessage, ...] | None:
        """The history for the run; None if it's the session's own.

        The session knows more than the client does, such as earlier results of tools. But where the client's
        messages aren't the session's, as after an edit, the client's count.
        """
        if await self._deps.store.session(thread) is None:
            return said.before
        _, seen = await self._deps.folds.session(thread)
        known = [entry.message.text for entry in seen.entries if isinstance(entry, Person)]
        given = [message.content for message in said.before if message.role == "user"]
        if not known or given[-len(known) :] != known:
            return said.before
        return await await_given_history(self._deps, thread)

    async def _resume(self, request: Request, thread: str, answers: Sequence[InterruptAnswer]) -> _Begun:
        """Answer the run's open requests, and stream what follows."""
        if len({one.interrupt_id for one in answers}) != len(answers):
            raise bad_request(
                "'resume' has two entries for one interrupt. Send one entry for each", param="resume"
            )
        run = await self._asking(thread, answers)
        row = await known_run(self._deps, run.run_id)
        asks = [run.person_asks[one.interrupt_id] for one in answers]
        if any(isinstance(ask.asked, e.ApprovalAsked) for ask in asks):
            check_scope(request.scope, "approve")
        by: str = request.scope[KEY_NAME]
        mode_max = self._deps.mode_access.allowed()[-1]
        read = {
            one.interrupt_id: _answer(ask.asked, one, at=at, by=by, mode_max=mode_max)
            for at, (ask, one) in enumerate(zip(asks, answers, strict=True))
        }
        for answer in read.values():
            await self._deps.workspaces.check_answer(row, answer)
        open_answers = {ask.asked.ask_id: read[ask.asked.ask_id] for ask in asks if ask.state == "open"}
        answered_or_stale(await self._deps.inbox.answer_all(open_answers))
        return _Begun(row, max(ask.seq for ask in asks))

    async def _asking(self, thread: str, answers: Sequence[InterruptAnswer]) -> Run:
        """The one run of the thread that asks all this, itself or through sub-agents; raises a Problem."""
        wanted = {one.interrupt_id for one in answers}
        is_known = await self._deps.store.session(thread) is not None
        runs = (await self._deps.inbox.state(thread)).runs.values() if is_known else ()
        found = {run.run_id: run for run in runs if wanted & run.person_asks.keys()}
        missing = wanted.difference(*(run.person_asks for run in found.values()))
        if missing or len(found) != 1:
            text = f"The thread has no interrupt {', '.join(sorted(missing))[:200]}"
            text = text if missing else "Answer one run at a time"
            raise Problem(404, text, code="interrupt_not_found", param="resume")
        return next(iter(found.values()))


def _answer(
    asked: e.AskAsked, given: InterruptAnswer, *, at: int, by: str, mode_max: ApprovalMode
) -> AskAnswer:
    """The verdict or answer in a payload; raises a Problem that says what to send."""
    is_question = isinstance(asked, e.QuestionAsked)
    fields = _fields(given.payload, "answer" if is_question else "choice")
    reason = fields.get("reason")
    reason = reason if isinstance(reason, str) else ""
    if {"choice", "approved"} <= fields.keys():
        param = f"resume[{at}].payload"
        raise bad_request(f"Invalid '{param}': send choice or approved, not both", param=param)
    if given.status == "cancelled":
        text = QUESTION_CLOSED if is_question else "deny"
        return answer_of(asked, text, by=by, reason=reason, mode_max=mode_max)
    said = fields.get("answer") if is_question else fields.get("choice", fields.get("approved"))
    if isinstance(said, bool) and not is_question:
        said = "once" if said else "deny"
    if not isinstance(said, str) or not said.strip():
        param = f"resume[{at}].payload"
        what = "the answer as text, or {answer}" if is_question else "true, false, or {choice}"
        raise bad_request(f"Invalid '{param}': send {what}", param=param)
    return answer_of(asked, said, by=by, reason=reason, mode_max=mode_max)


def _fields(payload: object, name: str) -> dict[str, object]:
    """A payload as an object; any other value stands for its one field."""
    return cast("dict[str, object]", payload) if isinstance(payload, dict) else {name: payload}


def _options(wanted: RunAgentInput) -> AgUiOptions:
    given = (
        cast("dict[str, object]", wanted.forwarded_props) if isinstance(wanted.forwarded_props, dict) else {}
    )
    return converted(given.get("holdfast") or {}, AgUiOptions, param="forwardedProps.holdfast")


def _cursor(request: Request) -> int | None:
    """The seq after which to continue; None if the whole stream is wanted."""
    given = request.headers.get("last-event-id", "")
    return int(given[:18]) if given.isascii() and given.isdigit() else None
