"""A relayed call as a separate session: the request, the unmodified answer and the call's record."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, cast

import msgspec
from typing_extensions import override

from holdfast import events as e
from holdfast.agent.runlog import RunLog
from holdfast.features.relay.attempts import RelayReceiver
from holdfast.features.relay.metering import MeteredEvents
from holdfast.features.relay.raw_request import RawRequest
from holdfast.features.relay.response_buffer import WAITING_BYTES_MAX
from holdfast.interfaces.ids import new_epoch, new_message_id, new_session_id
from holdfast.interfaces.journal import Appended, IfRunOpen, UnknownSession
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.model_events import Finished, ItemClosed, ModelEvent
from holdfast.models.answer_writer import AnswerWriter
from holdfast.models.exchange import ANSWER_BYTES_MAX
from holdfast.server.deps import RouteDeps
from holdfast.server.transport.bodies import UNREADABLE
from holdfast.values import RELAY, CallFinish, FilePart, OutcomeKind, RunSettings

STOPPED = "stopped"
REQUEST_FILE = "request.json"
BY_CLIENT = "Forwarded to the client, which runs its own tools."


class LoggedEvents(MeteredEvents):
    """Writes the events of a relayed call to its log as well."""

    log: RunLog

    @property
    @override
    def full(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it is only read
        return super().full or self.log.full or self._is_ahead

    @property
    def _is_ahead(self) -> bool:
        """Whether too much waits for the log before the client may have it."""
        return self.buffer.unsaved_bytes > WAITING_BYTES_MAX

    @override
    async def room(self) -> None:
        await super().room()
        if self._is_ahead:
            await self.log.flush()
        await self.log.room()

    @override
    def count(self, event: e.Event) -> None:
        """The store counts what is appended."""

    @override
    def emit(self, event: e.Event) -> None:
        super().emit(event)
        self.log.emit(event)

    @override
    def say(self, segment: int, text: str) -> None:
        self.log.say(segment, text)

    @override
    def think(self, segment: int, text: str) -> None:
        self.log.think(segment, text)

    @override
    def next_segment(self) -> int:
        return self.log.next_segment()


class LoggedReceiver(RelayReceiver):
    """Passes an attempt's answer to its client, and writes it to the log."""

    def __init__(self, inner: RelayReceiver, sink: LoggedEvents) -> None:
        self._inner = inner
        self._sink = sink
        tool_ids = set[str]()
        self._writer = AnswerWriter(
            sink,
            tool_ids=lambda: tool_ids,
            owner_of=lambda _: "client",
            before_first=lambda: None,
            bytes_max=ANSWER_BYTES_MAX,
        )

    @property
    def said(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it is only read
        """Whether something of it is visible, to the client or on the log."""
        return self._inner.said or self._writer.said

    @property
    def produced(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it is only read
        """Whether there was text or a whole tool call."""
        return self._inner.produced

    @property
    def is_full(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]  # it is only read
        """Whether it takes no more; the log takes what fits, and the client everything."""
        return self._inner.is_full

    @property
    @override
    def has_provider_error(self) -> bool:
        return self._inner.has_provider_error

    @override
    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self._inner.begin(status, headers)

    @override
    def raw(self, piece: bytes) -> None:
        self._inner.raw(piece)

    @override
    def write_text(self, index: int, text: str) -> None:
        self._writer.write_text(index, text)
        self._inner.write_text(index, text)

    @override
    def write(self, event: ModelEvent) -> None:
        self._writer.write(event)
        if isinstance(event, ItemClosed):
            self._write_tools()
        self._inner.write(event)

    @override
    def cut(self) -> None:
        self._inner.cut()

    @override
    def answer(self, call_id: str, finish: Finished) -> Answer | None:
        self._writer.cut()
        self._writer.answer(call_id, finish)
        return self._inner.answer(call_id, finish)

    def _write_tools(self) -> None:
        """Write the calls that are whole, before the client has all of them."""
        for tool in self._writer.ask():
            # The log has no later word about it: the client sends the result with its next request.
            self._sink.emit(
                e.ToolEnded(
                    at_ms=self._sink.now_ms(),
                    run_id=self._sink.run_id,
                    tool_call_id=tool.tool_call_id,
                    ok=False,
                    result=BY_CLIENT,
                    ending="not_started",
                )
            )

    @override
    def show_opening(self) -> bool:
        return self._inner.show_opening()

    @override
    def show_failure(self) -> None:
        self._inner.show_failure()


class CallLog:
    """The log of one call: a session with one run; it is on disk before the target is asked."""

    def __init__(self, deps: RouteDeps, sink: LoggedEvents) -> None:
        self.session_id = new_session_id()
        self._deps = deps
        self._sink = sink
        self._stop_cause = ""

    @asynccontextmanager
    async def opened(self, raw: RawRequest, key: str) -> AsyncGenerator[None]:
        """Write the request, and heed a stop of the run until the block ends."""
        deps, run_of = self._deps, (self.session_id, self._sink.run_id)
        with deps.supervisor.executed_elsewhere(self.session_id):
            seq = await self._write_request(raw, key)
            fence = await deps.store.claim(self.session_id)
            async with RunLog(
                deps.store, deps.clock, run=run_of, fence=fence, secrets=deps.agent.secrets
            ) as log:
                log.continue_after(seq, segment=0)
                self._sink.log = log
                self._sink.buffer.hold_until(log.when_saved)
                call = asyncio.current_task()
                assert call is not None, "a call is a task"
                stopping = asyncio.create_task(self._until_stopped(seq, call), name="heed a stop")
                try:
                    yield
                finally:
                    stopping.cancel()
                    await asyncio.wait([stopping])

    async def _write_request(self, raw: RawRequest, key: str) -> int:
        deps, run_id, at_ms = self._deps, self._sink.run_id, self._deps.clock.now_ms()
        body = await asyncio.to_thread(deps.agent.secrets.redact_bytes, raw.body)
        part = FilePart(
            blob=await deps.store.put_blob(body), media_type="application/json", name=REQUEST_FILE
        )
        text = question_in(body) or f"A request to {raw.model}"
        message = e.MessageAccepted(at_ms=at_ms, message_id=new_message_id(), text=text, parts=(part,))
        settings = RunSettings(model=raw.model, on_restart="interrupt")
        inputs = [
            e.SessionCreated(at_ms=at_ms, epoch=new_epoch(), source=RELAY),
            message,
            e.RunQueued(
                at_ms=at_ms, run_id=run_id, message_id=message.message_id, settings=settings, key=key
            ),
        ]
        appended = await deps.store.append(self.session_id, inputs)
        assert isinstance(appended, Appended), "a new session has no condition"
        begin = [
            e.MessageDispatched(at_ms=at_ms, run_id=run_id, message_id=message.message_id),
            e.RunStarted(at_ms=at_ms, run_id=run_id),
        ]
        fence = await deps.store.claim(self.session_id)
        await deps.store.append_run(self.session_id, begin, fence=fence)
        return appended.last_seq

    async def _until_stopped(self, after: int, call: asyncio.Task[object]) -> None:
        async for records in self._deps.store.follow(self.session_id, after=after, pace="seldom"):
            for record in records:
                if isinstance(record.event, e.StopRequested):
                    self._stop_cause = record.event.cause or "stop"
                    call.cancel(STOPPED)
                    return

    async def end(self, record: e.RelayCalled, ended: Answer | NoAnswer | None) -> None:
        """Write the ending and the record; nothing if the session was purged meanwhile."""
        run_id, log = self._sink.run_id, self._sink.log
        finish: CallFinish = ended.finish if isinstance(ended, Answer) else "failed"
        log.emit(e.CallEnded(at_ms=log.now_ms(), run_id=run_id, call_id=record.call_id, finish=finish))
        with suppress(UnknownSession):
            await log.flush()
            outcome = e.RunEnded(
                at_ms=log.now_ms(),
                run_id=run_id,
                outcome=_outcome(ended),
                cause=(self._stop_cause or "client_left") if ended is None else "",
                failure=record.failure,
                trace=ended.trace if isinstance(ended, NoAnswer) else (),
            )
            await log.append([record, outcome], when=[IfRunOpen(run_id)])


def _outcome(ended: Answer | NoAnswer | None) -> OutcomeKind:
    if ended is None:
        return "cancelled"
    if isinstance(ended, NoAnswer):
        return "failed"
    return _OUTCOMES.get(ended.finish, "completed")


_OUTCOMES: dict[str, OutcomeKind] = {"refused": "refused", "length": "truncated", "too_long": "truncated"}


def question_in(body: bytes) -> str:
    """The last text of the user in a request, in any of the three protocols; empty if there is none."""
    try:
        asked = msgspec.json.decode(body, type=_Asked)
    except UNREADABLE:
        return ""
    if isinstance(asked.input, str):
        return asked.input
    texts = [
        _text_of(item.get("content")) for item in _dicts(asked.messages or asked.input) if _is_user(item)
    ]
    return next(filter(None, reversed(texts)), "")


class _Asked(msgspec.Struct):
    messages: Any = None
    input: Any = None


def _is_user(item: Mapping[str, object]) -> bool:
    return item.get("role") == "user"


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    texts = [part.get("text") for part in _dicts(content)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _dicts(items: object) -> list[dict[str, object]]:
    listed = cast("list[object]", items) if isinstance(items, list) else []
    return [cast("dict[str, object]", item) for item in listed if isinstance(item, dict)]
