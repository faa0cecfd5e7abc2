"""One attempt of a call: an exchange with one target, recorded on the log, and how it ended."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from holdfast import events as e
from holdfast.decisions.deadlines import Deadlines, RequestFacts, State, effective, is_local
from holdfast.decisions.failures import Classified, Facts, classify
from holdfast.decisions.learned import load_silent_rejects, silent_reject_hint
from holdfast.decisions.retry import is_unreachable
from holdfast.interfaces.ids import new_attempt_id
from holdfast.interfaces.journal import JournalError
from holdfast.interfaces.model import Answer, EventSink
from holdfast.models.call_deps import CallDeps
from holdfast.models.call_request import CallRequest
from holdfast.models.exchange import AnswerReceiver, AttemptMeter, ExchangeEnd, ModelExchange
from holdfast.models.status_lines import live_line, signing_in
from holdfast.models.watchdog import Watchdog
from holdfast.targets import Target
from holdfast.values import CloseReason, Failure, FailureKind

_log = logging.getLogger(__name__)
LOOK_S = 0.1  # until a hedge looks again whether a sign-in has given its token

# Read with this module, in a thread, so that no call waits for the disk.
_SILENT_REJECTS = load_silent_rejects(Path(__file__).with_name("silent_rejects.toml").read_text("utf-8"))


class Hooks(msgspec.Struct, frozen=True):
    """What a call gives its attempt.

    `before_first` is called before the first visible output, `on_progress` at the model's first progress.
    `after_failure` says what a failure of a kind would lead to. `outage_line` is the live line while an
    outage keeps the attempt from connecting.
    """

    before_first: Callable[[], None]
    after_failure: Callable[[FailureKind], str]
    on_progress: Callable[[], None] | None = None
    outage_line: Callable[[], str] | None = None


class AttemptContext(msgspec.Struct, frozen=True):
    """Which attempt of which call this is.

    During an outage, `reconnects` is the number of failed tries that aren't on the log. Such an attempt is
    recorded only if it connects, or if it is the last one.
    """

    call_id: str
    nth: int
    reconnects: int | None = None


async def authorized_by(deps: CallDeps, target: Target, rejected: str = "") -> Target | Failure:
    """The target with the current token of its sign-in, or the failure that there is none."""
    if deps.authorize is None:
        text = f"target {target.name} uses the sign-in {target.auth}, which needs a holdfast.toml"
        return Failure(kind="auth", text=text, rule="sign_in")
    return await deps.authorize(target, rejected)


class Attempt:
    """One attempt; `run` may be awaited once."""

    def __init__(self, deps: CallDeps, target: Target, *, sink: EventSink, context: AttemptContext) -> None:
        self.attempt_id = new_attempt_id()
        self.said = False  # something visible is on the log
        self.silent_s: float | None = None  # since the model's last progress; None if there was none
        self.is_recorded = context.reconnects is None  # whether its start is on the log
        self._deps = deps
        self._target = target
        self.sent_as = target  # with its token, if the target has a sign-in
        self._sink = sink
        self._context = context
        self._deadlines: Deadlines | None = None
        self._unrecorded: tuple[Classified, CloseReason] | None = None
        self._began_s = deps.clock.monotonic_s()
        self._meter = AttemptMeter(0)
        self._watchdog: Watchdog | None = None

    async def run(self, asked: CallRequest, *, hooks: Hooks) -> Answer | Classified:
        """The answer, or what went wrong; raises CancelledError and what the sink raises."""
        tokens = asked.input_tokens
        if over := asked.over_window_tokens(self._target):
            self.is_recorded = True
            return classify(self._facts(over_window_tokens=over), self._target)
        self._deadlines = deadlines = self._effective(asked, tokens)
        if self.is_recorded:
            self._emit_started(deadlines)
        if self._target.auth and (unauthorized := await self._unauthorized()) is not None:
            return unauthorized
        receiver = asked.receiver(self._sink, self._target, before_first=hooks.before_first)
        watchdog = Watchdog(deadlines, steady_s=self._deps.clock.steady_s)
        watchdog.on_progress = hooks.on_progress
        watchdog.on_connected = self._connected
        self._watchdog = watchdog
        self._meter = AttemptMeter(tokens, asked.answers)
        self._sink.live = lambda: self._live_line(watchdog, hooks)
        activity = self._deps.shared.activity
        activity.begin(self._target)
        try:
            ended = await self._talk(asked, watchdog, receiver=receiver)
        except JournalError:
            raise
        except Exception as error:  # noqa: BLE001  # a bug of ours must end the call as failed
            _log.exception("a model call failed because of a bug in Holdfast")
            return self._failed(self._facts(bug=repr(error)), "cancel")
        except BaseException as error:
            self._cancelled(error)
            raise
        finally:
            activity.end(self._target)
            self.said = receiver.said
            self.silent_s = watchdog.without_progress_s
        judged = self._judged(ended, receiver, got_event=watchdog.first_event_s is not None)
        if watchdog.first_event_s is not None and asked.is_streamed:
            await self._deps.shared.got_first_event(
                self._target, tokens, first_event_s=watchdog.first_event_s
            )
        return judged

    async def _unauthorized(self) -> Classified | None:
        """Get the current token of the target's sign-in, or the failure that there is none."""
        began_s, name = self._deps.clock.monotonic_s(), self._target.auth
        self._sink.live = lambda: signing_in(name, took_s=self._deps.clock.monotonic_s() - began_s)
        try:
            authorized = await authorized_by(self._deps, self._target)
        except BaseException as error:
            self._cancelled(error)
            raise
        if isinstance(authorized, Target):
            self.sent_as = authorized
            return None
        classified = Classified(authorized, brief=authorized.text)
        self._emit_failed(classified, "cancel")
        return classified

    def _cancelled(self, error: BaseException) -> None:
        # We cancelled it ourselves, and the message of the cancellation is the cause.
        cause = next((said for said in error.args if isinstance(said, str) and said), "stop")
        self._failed(self._facts(cancelled_by=cause), "cancel")

    @property
    def was_connected(self) -> bool:
        """Whether the target accepted the connection."""
        return self._watchdog is not None and self._watchdog.state is not State.CONNECTING

    def record(self) -> None:
        """Record an attempt that couldn't connect and isn't on the log yet."""
        assert self._unrecorded is not None, "it could not connect"
        self._emit_failed(*self._unrecorded)

    def _connected(self) -> None:
        """The target is sent the request, which it may charge for from now on."""
        self._meter.is_sent = True
        self._record_start()

    def _record_start(self) -> None:
        if not self.is_recorded:
            assert self._deadlines is not None, "it was started"
            self.is_recorded = True
            self._emit_started(self._deadlines)

    def _live_line(self, watchdog: Watchdog, hooks: Hooks) -> str:
        if hooks.outage_line is not None and watchdog.state is State.CONNECTING:
            return hooks.outage_line()
        return live_line(self._target.model, watchdog, then=hooks.after_failure, hint=self._hint())

    def first_event_left_s(self, share: float) -> float | None:
        """How long until this share of the first-event patience is over; None once an event has arrived."""
        if self._watchdog is None:
            return LOOK_S if self._target.auth else 0.0
        return self._watchdog.first_event_left_s(share)

    async def _talk(self, asked: CallRequest, watchdog: Watchdog, *, receiver: AnswerReceiver) -> ExchangeEnd:
        built, parser = await asked.build(self.sent_as)
        exchange = ModelExchange(
            built, parser, watchdog=watchdog, receiver=receiver, meter=self._meter, sink=self._sink
        )
        return await exchange.run(self._deps.http(), now_ms=self._deps.clock.now_ms)

    def _judged(
        self, ended: ExchangeEnd, receiver: AnswerReceiver, *, got_event: bool
    ) -> Answer | Classified:
        if ended.facts is not None:
            silently = not got_event and not ended.facts.status
            facts = replace(ended.facts, hint=self._hint()) if silently else ended.facts
            return self._failed(facts, ended.close_reason)
        assert ended.finish is not None
        answer = receiver.answer(self._context.call_id, ended.finish)
        if answer is not None:
            self._emit_usage()
            return answer
        reason = ended.finish.reason
        said = ended.finish.detail if reason == "refused" else ""
        return self._failed(self._facts(finish=reason, produced=receiver.produced, said=said), "done")

    def _failed(self, facts: Facts, close_reason: CloseReason) -> Classified:
        classified = classify(facts, self.sent_as)
        if not self.is_recorded and (facts.cancelled_by or is_unreachable(classified.failure)):
            self._unrecorded = (classified, close_reason)
        else:
            self._emit_failed(classified, close_reason)
        return classified

    def _emit_failed(self, classified: Classified, close_reason: CloseReason) -> None:
        self._record_start()
        self._emit_usage()
        self._emit(
            e.AttemptFailed,
            attempt_id=self.attempt_id,
            failure=classified.failure,
            close_reason=close_reason,
            ms=int(1000 * (self._deps.clock.monotonic_s() - self._began_s)),
        )

    def _facts(self, **known: Any) -> Facts:
        return Facts(stage="streaming", now_ms=self._deps.clock.now_ms(), **known)

    def _hint(self) -> str:
        target = self._target
        return silent_reject_hint(_SILENT_REJECTS, base_url=target.base_url, model=target.model)

    def _effective(self, asked: CallRequest, tokens: int) -> Deadlines:
        target = self._target
        facts = RequestFacts(
            local=is_local(urlsplit(target.base_url).hostname or ""),
            input_tokens=tokens,
            reasoning=asked.asks_to_reason,
            streamed=asked.is_streamed,
            output_tokens_max=asked.output_tokens_max,
            learned_p95_s=self._deps.shared.learned_p95_s(target, tokens),
            usual_s=self._deps.shared.usual_s(target, tokens) if self._context.nth == 1 else None,
        )
        return effective(target.patience, facts)

    def _emit_started(self, deadlines: Deadlines) -> None:
        self._emit(
            e.AttemptStarted,
            call_id=self._context.call_id,
            attempt_id=self.attempt_id,
            target=self._target.name,
            model=self._target.model,
            nth=self._context.nth,
            first_event_s=deadlines.first_event.patience_s,
            reconnects=self._context.reconnects or 0,
        )

    def _emit_usage(self) -> None:
        used = self._meter.total()
        if used is None:
            return
        self._emit(
            e.Usage,
            call_id=self._context.call_id,
            target=self._target.name,
            model=self._target.model,
            input_tokens=used.input_tokens,
            output_tokens=used.output_tokens,
            cached_tokens=used.cached_tokens,
            cache_write_tokens=used.cache_write_tokens,
            reasoning_tokens=used.reasoning_tokens,
            cost_usd=self._deps.prices.cost_usd(self._target, used),
            estimated=used.is_estimate,
        )

    def _emit(self, kind: type[e.RunEvent], **fields: Any) -> None:
        self._sink.emit(kind(at_ms=self._sink.now_ms(), run_id=self._sink.run_id, **fields))
