"""A conversation of another program as a log, with the events that a run would have written."""

import hashlib
import secrets
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from holdfast import events as e
from holdfast.features.transcripts.conversation import ImportedConversation, ImportedMessage
from holdfast.interfaces.ids import (
    new_attempt_id,
    new_call_id,
    new_epoch,
    new_message_id,
    new_run_id,
)
from holdfast.redaction import NO_SECRETS, Redactor, without_keys
from holdfast.values import Failure, ImagePart

RESULT_CHARS_MAX = 32 * 1024
CUT = "\n[… the rest is kept with the message]"

Made = TypeVar("Made", bound=e.Event)


class Written(Struct):
    """The log of one conversation, the blobs that it names, and how many messages have no place in it."""

    events: list[e.Event] = field(default_factory=list[e.Event])
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    messages: int = 0
    lost: int = 0


def written(session: ImportedConversation, *, hidden: Redactor = NO_SECRETS, workspace: str = "") -> Written:
    """Build the log; empty if the conversation has no messages.

    Secrets in `hidden` and everything formed like an API key are removed.
    """
    writer = _Writer(replace(session, title=_clean(session.title, hidden)), workspace=workspace)
    for message in session.messages:
        writer.take(_without_secrets(message, hidden))
    return writer.end()


def _clean(text: str, hidden: Redactor) -> str:
    return without_keys(hidden.redact_text(text))


def _without_secrets(message: ImportedMessage, hidden: Redactor) -> ImportedMessage:
    calls = [
        replace(
            call,
            # A key has no character that JSON escapes.
            args=msgspec.json.decode(
                without_keys(hidden.redact_bytes(msgspec.json.encode(call.args)).decode())
            ),
            bad_args=_clean(call.bad_args, hidden),
        )
        for call in message.tool_calls
    ]
    return replace(
        message,
        text=_clean(message.text, hidden),
        reasoning=_clean(message.reasoning, hidden),
        tool_calls=tuple(calls),
    )


class _Writer:
    """Writes runs: each begins with what a person said and ends before the next."""

    def __init__(self, session: ImportedConversation, *, workspace: str) -> None:
        self._session = session
        self._workspace = workspace
        self._out = Written()
        self._ms = session.created_ms
        self._run_id = ""
        self._calls = 0
        self._call_id = ""
        self._segment = 0
        self._open: dict[str, str] = {}  # the tool call as it was named there, and as it is named here
        self._answered = self._is_partial = False
        self._failed = ""

    def take(self, message: ImportedMessage) -> None:
        """Add one message."""
        self._ms = max(self._ms, message.at_ms)
        self._out.lost += message.lost
        match message.role:
            case "user":
                self._person(message)
            case "assistant" if self._run_id:
                self._answer(message)
            case "tool" if self._run_id:
                self._result(message)
            case "system":
                return  # instructions are the configuration's business, not the conversation's
            case _:
                self._out.lost += 1
                return
        self._out.messages += 1

    def end(self) -> Written:
        """All events, and then the session's title, pin and archive state."""
        self._end_run()
        if self._out.events and self._session.pinned:
            self._put(e.SessionPinned)
        if self._out.events and self._session.archived:
            self._put(e.SessionArchived)
        return self._out

    def _put(self, kind: type[Made], **fields: Any) -> None:
        self._out.events.append(kind(at_ms=self._ms, **fields))

    def _run_event(self, kind: type[Made], **fields: Any) -> None:
        self._put(kind, run_id=self._run_id, **fields)

    def _person(self, message: ImportedMessage) -> None:
        self._end_run()
        if not self._out.events:
            created = e.SessionCreated(
                at_ms=self._session.created_ms or self._ms,
                epoch=new_epoch(),
                source=self._session.source,
                title=self._session.title,
                workspace=self._workspace,
            )
            self._out.events.append(created)
        self._run_id, message_id = new_run_id(), new_message_id()
        self._calls, self._segment, self._failed = 0, 0, ""
        self._answered = self._is_partial = False
        parts = tuple(
            ImagePart(blob=self._blob(image.data), media_type=image.media_type) for image in message.images
        )
        self._put(e.MessageAccepted, message_id=message_id, text=message.text, parts=parts)
        self._run_event(e.RunQueued, message_id=message_id)
        self._run_event(e.MessageDispatched, message_id=message_id)
        self._run_event(e.RunStarted, target=self._session.source)

    def _answer(self, message: ImportedMessage) -> None:
        self._settle_tools()
        self._failed = message.text if message.ending == "failed" else ""
        if message.ending == "failed":
            return  # nothing that the harness said is the model's words
        self._calls += 1
        self._call_id = new_call_id()
        attempt_id = new_attempt_id()
        model = self._session.model
        self._run_event(e.CallStarted, call_id=self._call_id, turn=self._calls)
        self._run_event(
            e.AttemptStarted,
            call_id=self._call_id,
            attempt_id=attempt_id,
            target=self._session.source,
            model=model,
        )
        for kind, text in ((e.ReasoningDone, message.reasoning), (e.TextDone, message.text)):
            if text:
                self._segment += 1
                self._run_event(kind, segment=self._segment, text=text)
        for call in message.tool_calls:
            own = f"tool_{secrets.token_hex(8)}"
            self._open[call.call_id or own] = own
            self._run_event(
                e.ToolAsked, tool_call_id=own, name=call.name, args=call.args, bad_args=call.bad_args
            )
        finish = "tools" if message.tool_calls else "stop"
        self._run_event(e.CallEnded, call_id=self._call_id, finish=finish)
        self._is_partial = message.ending == "partial"
        self._answered = bool(message.text) or bool(message.tool_calls) or self._answered

    def _result(self, message: ImportedMessage) -> None:
        own = self._open.pop(message.tool_call_id, "")
        if not own:
            self._out.lost += 1
            return
        self._run_event(e.ToolStarted, tool_call_id=own, effect_key=f"imported:{own}")
        text, blob = message.text, ""
        if len(text) > RESULT_CHARS_MAX:
            blob, text = self._blob(text.encode("utf-8", "surrogatepass")), text[:RESULT_CHARS_MAX] + CUT
        self._run_event(e.ToolEnded, tool_call_id=own, ok=message.ok, result=text, blob=blob)

    def _settle_tools(self) -> None:
        for own in self._open.values():
            self._run_event(
                e.ToolEnded,
                tool_call_id=own,
                ok=False,
                result=f"{self._session.program} stored no result of this call, so its outcome is unknown.",
                ending="unknown",
            )
        self._open = {}

    def _end_run(self) -> None:
        if not self._run_id:
            return
        self._settle_tools()
        if self._failed:
            failure = Failure(kind="unknown", text=self._failed, rule="imported")
            self._run_event(e.RunEnded, outcome="failed", cause="unknown", failure=failure)
        elif self._is_partial:
            self._run_event(e.RunEnded, outcome="interrupted", cause="only a part of the answer was kept")
        elif self._answered:
            self._run_event(e.RunEnded, outcome="completed")
        else:
            self._run_event(e.RunEnded, outcome="interrupted", cause="no answer was kept")
        self._run_id = ""

    def _blob(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        self._out.blobs[name] = data
        return name
