"""A session's model context over HTTP: show it, pin messages, revert compactions."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from starlette.requests import Request
from starlette.responses import Response

from holdfast import events as e
from holdfast.agent.shared_fold import SharedFold
from holdfast.api.sessions import (
    CacheBreak,
    CallTokens,
    ContextMessage,
    ContextShown,
    PinRequest,
    RevertRequest,
    ShortenedShown,
    TrimmedShown,
)
from holdfast.folds.context import PinnedMessage, newest_run, pinned_message, shortened_now, since_summary
from holdfast.folds.entries import Ending, Person
from holdfast.folds.transcript import Transcript
from holdfast.runner.model_context import Changed, ModelContexts, NotChanged, pinned_tokens
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.deps import RouteDeps
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, session_not_found
from holdfast.server.routing import Endpoint
from holdfast.server.sessions.sessions import session_of
from holdfast.server.transport.bodies import decoded, json_response

PREVIEW_CHARS = 200
MESSAGES_SHOWN = 20


class ContextRoutes:
    """The routes under /api/sessions/{session_id}/context."""

    def __init__(self, deps: RouteDeps) -> None:
        self._deps = deps
        self._contexts = ModelContexts(deps.supervisor)

    async def show(self, request: Request) -> Response:
        """GET /api/sessions/{session_id}/context."""
        session_id = (await session_of(self._deps, request)).row.session_id
        return await self._shown(session_id, request.query_params.get("model", ""))

    async def pin(self, request: Request) -> Response:
        """POST /api/sessions/{session_id}/context/pin."""
        wanted = await decoded(request, self._deps.limits, PinRequest)
        session_id = (await session_of(self._deps, request)).row.session_id
        result = await self._contexts.pin(session_id, wanted.id, by=request.scope[KEY_NAME])
        return await self._changed(session_id, result)

    async def unpin(self, request: Request) -> Response:
        """POST /api/sessions/{session_id}/context/unpin."""
        wanted = await decoded(request, self._deps.limits, PinRequest)
        session_id = (await session_of(self._deps, request)).row.session_id
        result = await self._contexts.unpin(session_id, wanted.id, by=request.scope[KEY_NAME])
        return await self._changed(session_id, result)

    async def revert(self, request: Request) -> Response:
        """POST /api/sessions/{session_id}/context/revert."""
        wanted = await decoded(request, self._deps.limits, RevertRequest)
        session_id = (await session_of(self._deps, request)).row.session_id
        result = await self._contexts.revert(
            session_id, wanted.seq, model=wanted.model, by=request.scope[KEY_NAME]
        )
        if result == NotChanged("not_found"):
            why = "The session has no compaction or trimming with this seq"
            raise Problem(404, why, code="compaction_not_found", param="seq")
        return await self._changed(session_id, result, wanted.model)

    async def _changed(self, session_id: str, result: Changed | NotChanged, model: str = "") -> Response:
        if isinstance(result, NotChanged):
            raise _refused(result, session_id)
        return await self._shown(session_id, model)

    async def _shown(self, session_id: str, model: str) -> Response:
        view = await self._deps.supervisor.view(session_id)
        sent = await self._contexts.sent_before(session_id, view)
        transcript, recorded = view.transcript, sent.recorded
        size = self._contexts.size(session_id, view, sent, model=model)
        seq, used = transcript.used or (0, None)
        is_current = used is not None and seq > transcript.reshaped_seq
        tokens = used.input_tokens + used.output_tokens if used is not None and is_current else size.tokens
        set_seq = transcript.context.seq if transcript.context is not None else 0
        messages = _Messages(transcript)
        return json_response(
            ContextShown(
                session_id=session_id,
                last_seq=view.last_seq,
                window_tokens=size.window,
                fit_tokens=size.tokens_max,
                used_tokens=tokens,
                used_percent=round(100 * tokens / size.window),
                estimated=not is_current,
                system_tokens=size.system,
                tools_tokens=size.tools,
                messages_tokens=size.messages,
                tools=recorded.tools if recorded is not None else (),
                shortened=tuple(_shortened(view)),
                pins=tuple(messages.of(transcript.pins)),
                pins_tokens=pinned_tokens(transcript),
                pins_tokens_max=self._contexts.pins_max(view, model=model),
                messages=tuple(messages.newest()),
                last_call=None if used is None else _call(seq, used),
                cache_break=None if recorded is None else _cache_break(set_seq, recorded),
            )
        )


class _Messages:
    """The messages and answers of a transcript that are pinned or can be."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        newest = newest_run(transcript)
        self._summary = since_summary(transcript, newest)[0] if newest else None

    def of(self, ids: Iterable[str]) -> Iterator[ContextMessage]:
        """Return these messages; rewound ones are left out."""
        for id_ in ids:
            if (found := pinned_message(self._transcript, id_)) is not None:
                yield self._shown(id_, found)

    def newest(self) -> list[ContextMessage]:
        """Return the newest ones, oldest first."""
        return [*islice(self.of(self._newest_ids()), MESSAGES_SHOWN)][::-1]

    def _newest_ids(self) -> Iterator[str]:
        for entry in reversed(self._transcript.entries):
            if self._transcript.runs[entry.run_id].purpose != "answer":
                continue
            if isinstance(entry, Person):
                yield entry.message.message_id
            elif isinstance(entry, Ending):
                yield entry.run_id

    def _shown(self, id_: str, message: PinnedMessage) -> ContextMessage:
        summary = self._summary
        return ContextMessage(
            id=id_,
            seq=message.seq,
            author="person" if message.is_person else "model",
            text=message.text[:PREVIEW_CHARS],
            tokens=message.tokens,
            pinned=id_ in self._transcript.pins,
            sent=summary is None or message.seq > summary.upto_seq or id_ in summary.pinned,
        )


def _shortened(view: SharedFold) -> Iterator[ShortenedShown]:
    for seq, one in shortened_now(view.transcript).items():
        event = one.event
        is_summary = isinstance(event, e.ContextCompacted)
        yield ShortenedShown(
            seq=seq,
            kind="compaction" if is_summary else "trimming",
            at=event.at_ms / 1000,
            run_id=event.run_id,
            tokens_before=event.tokens_before,
            tokens_after=event.tokens_after,
            call_id=event.call_id if is_summary else "",
            cost_usd=one.used.cost_usd if one.used is not None else None,
            summary=event.summary if is_summary else "",
            failure=event.failure if is_summary else "",
            results=() if is_summary else tuple(_results(view.transcript, event)),
            reverted=one.reverted is not None,
            reverted_by=one.reverted.by if one.reverted is not None else "",
        )


def _results(transcript: Transcript, event: e.ContextTrimmed) -> Iterator[TrimmedShown]:
    for one in event.results:
        run = transcript.runs.get(one.run_id)
        card = run.tools.get(one.tool_call_id) if run is not None else None
        if card is not None:
            yield TrimmedShown(name=card.name, seq=card.seq, chars=one.chars)


def _call(seq: int, used: e.Usage) -> CallTokens:
    return CallTokens(
        seq=seq,
        at=used.at_ms / 1000,
        run_id=used.run_id,
        call_id=used.call_id,
        new_tokens=max(0, used.input_tokens - used.cached_tokens),
        cached_tokens=used.cached_tokens,
        output_tokens=used.output_tokens,
        target=used.target,
        model=used.model,
    )


def _cache_break(seq: int, recorded: e.ContextSet) -> CacheBreak | None:
    return None if recorded.reason == "first" else CacheBreak(seq, recorded.at_ms / 1000, recorded.reason)


def _refused(refusal: NotChanged, session_id: str) -> Problem:
    match refusal.why:
        case "session_deleted":
            return session_not_found(session_id)
        case "not_found":
            why = "The session has no message, and no run with an answer, with this id"
            return Problem(404, why, code="message_not_found", param="id")
        case "busy":
            why = "The session has an active run or queued messages. Stop the run, or clear the queue"
            return Problem(409, why, code="session_busy")
        case "reverted":
            return Problem(409, "This was reverted before", code="already_reverted", param="seq")
        case "pins_too_large":
            why = (
                f"All pins together would have about {refusal.tokens:,} tokens. At most a quarter of the "
                f"window of {refusal.window:,} can be pinned: {refusal.tokens_max:,}. Unpin something, or "
                "pin a shorter message"
            )
            return Problem(409, why, code="pins_too_large", param="id")
        case "too_large":
            return Problem(409, _too_large(refusal), code="context_too_large", param="seq")
        case "conflict":
            why = "Other people changed the context at the same time. Try again"
            return Problem(409, why, code="context_changed")


def _too_large(refusal: NotChanged) -> str:
    needed = (
        f"The context would have about {refusal.tokens:,} tokens. At most {refusal.tokens_max:,} fit the "
        f"window of {refusal.window:,} and leave room for an answer. "
    )
    if not refusal.target:
        return needed + "No configured target has a larger window that fits"
    return (
        needed + f"Choose the target {refusal.target} as the model, which has a larger window. Then try again"
    )


def endpoints(parts: RouteParts) -> Mapping[str, Endpoint]:
    """Return the endpoint functions by name."""
    routes = ContextRoutes(parts.deps)
    return {
        "context.show": routes.show,
        "context.pin": routes.pin,
        "context.unpin": routes.unpin,
        "context.revert": routes.revert,
    }
