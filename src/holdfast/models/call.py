"""One logical model call: the program's only retry loop, and the only place that waits between attempts."""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import override

from holdfast import events as e
from holdfast.decisions import retry
from holdfast.decisions.failures import Classified
from holdfast.decisions.retry import is_unreachable
from holdfast.interfaces.ids import new_call_id
from holdfast.interfaces.model import Answer, Compact, EventSink, ModelCaller, NoAnswer
from holdfast.messages import ModelRequest
from holdfast.models.attempt import Attempt, AttemptContext, Hooks, authorized_by
from holdfast.models.call_deps import CallDeps
from holdfast.models.call_request import AskForLess, CallRequest, ConversationRequest
from holdfast.models.hedge import Contender, HeldSink, Race
from holdfast.models.reconnects import Reconnects
from holdfast.models.status_lines import (
    GAVE_UP,
    HEDGED,
    OTHER_KEY,
    RENEWED,
    SLOWER,
    STOPPED,
    asked_to_wait,
    attempt_line,
    done_after,
    exhausted,
    gate_reason,
    outage_line,
    signing_in,
    slower,
    unreachable,
    unresponsive,
    waiting_line,
    with_fallback_advice,
    would_do,
)
from holdfast.models.target_states import TargetWait
from holdfast.targets import Target, listed, refusal
from holdfast.values import CallPurpose, Failure, FailureKind

_log = logging.getLogger(__name__)

UNAUTHORIZED = 401
KEY_PAUSE_MS = 600_000  # a key that was rejected isn't used for so long while others work


class OtherCredential(Struct, frozen=True):
    """Ask the same target at once, with another key or token; this isn't a further attempt of the call."""


_Next: TypeAlias = (
    retry.RetryAfter | retry.Reconnect | retry.FallBack | retry.Gated | AskForLess | OtherCredential
)

# The slower of two attempts counts as this failure, so that its target may be asked again.
SLOW = Failure(kind="no_first_event", text=SLOWER)


@dataclass(frozen=True, slots=True)
class ModelCalls(ModelCaller):
    """Answers requests with an ordered list of targets."""

    deps: CallDeps
    targets: tuple[Target, ...]

    @override
    async def answer(
        self,
        request: ModelRequest,
        sink: EventSink,
        *,
        turn: int,
        purpose: CallPurpose = "answer",
        compact: Compact | None = None,
    ) -> Answer | NoAnswer:
        asked = ConversationRequest(request, self.deps.shared, self.deps.blobs, compact=compact)
        return await self.make(asked, sink, turn=turn, purpose=purpose)

    async def make(
        self, asked: CallRequest, sink: EventSink, *, turn: int, purpose: CallPurpose = "answer"
    ) -> Answer | NoAnswer:
        """Make a call for any kind of request, as `answer` does for a conversation."""
        call = _Call(self, sink, asked=asked)
        try:
            return await call.run(turn, purpose)
        finally:
            sink.live = None


class _Call:
    """The state of one call while it is made."""

    _has_pools = False  # of keys
    _spent_keys: frozenset[str] = frozenset()
    _renewed: frozenset[str] = frozenset()  # targets with a new token

    def __init__(self, calls: ModelCalls, sink: EventSink, *, asked: CallRequest) -> None:
        self._deps = calls.deps
        self._targets = preferred(calls.targets, asked.model)
        for target in self._targets:
            if target.api_keys:
                self._has_pools = True
        self._sink = sink
        self._asked = asked
        self._call_id = new_call_id()
        self._tried: list[retry.Tried] = []
        self._trace: list[str] = []
        self._reconnects = Reconnects(calls.deps.shared, calls.deps.clock)
        self._outage_line: Callable[[], str] | None = None  # the live line during an outage
        self._newest: Attempt | None = None
        self._began_s = self._progress_s = self._now_s()  # by a clock that stops while the computer sleeps
        self._gated_s = 0.0
        self._failed_with_output = ""  # the id of an attempt that failed after visible output
        self._had_output = False
        self._shown_target = self._targets[0]  # the target that the user believes to be answering
        self._why_other = ""
        self._is_early = True  # a person waits, so it can be an extra probe
        self._last_failure: Failure | None = None

    async def run(self, turn: int, purpose: CallPurpose) -> Answer | NoAnswer:
        """Make attempts until there is an answer or nothing left to try."""
        self._emit(e.CallStarted, call_id=self._call_id, turn=turn, purpose=purpose)
        if self._has_pools:
            self._choose_keys()
        target = self._first_target()
        while True:
            if target.name == self._targets[0].name and (names := self._asked.unsupported(target)):
                failure = Failure(kind="bad_request", text=refusal(target, names), rule="unsupported_option")
                return NoAnswer(self._call_id, failure, tuple(self._trace))
            if (closed := self._closed_for_too_long(target)) is not None:
                return closed
            await self._pass_gate(target)
            if (silent := await self._silent_for_too_long(target)) is not None:
                return silent
            with self._deps.shared.attempting(target):
                target, ended = await self._attempt(target)
                if isinstance(ended, Answer):
                    await self._deps.shared.answered(target)
                    return ended
                decision, ended = await self._decided(target, ended)
            self._last_failure = ended.failure
            if isinstance(decision, retry.GiveUp):
                return self._no_answer(ended.failure, wait_ms=ended.wait_ms)
            target = await self._next_target(target, ended, decision=decision)
            if self._has_pools:
                self._choose_keys()
                target = self._named(target.name)

    async def _next_target(
        self,
        target: Target,
        ended: Classified,
        *,
        decision: _Next,
    ) -> Target:
        """Carry out the decision, wait, and return the target of the next attempt."""
        match decision:
            case retry.RetryAfter():
                await self._pause(target, decision)
            case retry.Reconnect():
                await self._reconnect(target, ended, decision=decision)
            case retry.FallBack():
                return await self._fall_back(target, decision)
            case retry.Gated():
                await self._gate(target, ended, decision=decision)
            case OtherCredential():
                pass  # the loop chooses it
            case _:
                self._asked.ask_for_less(target, decision)
        return target

    async def _decided(
        self, target: Target, ended: Classified
    ) -> tuple[retry.Decision | OtherCredential, Classified]:
        """Count a failure, decide what to do, and record it unless it's one of many in an outage."""
        attempt = self._newest
        assert attempt is not None, "it has just failed"
        if attempt.was_connected:
            await self._deps.shared.reached(target)
        if is_unreachable(ended.failure):
            self._reconnects.count(target, ended, recorded=attempt.is_recorded)
        else:
            self._add_to_trace(*self._reconnects.end(target))
        await self._share(target, ended)
        changed, ended = await self._change_credential(target, ended, token=attempt.sent_as.api_key)
        if changed:
            self._trace_attempt(target, ended, then=changed)
            return OtherCredential(), ended
        decision = self._asked.decide(ended.failure, self._history(target, ended))
        if isinstance(decision, retry.Compact) and not await self._asked.shorten():
            decision = self._asked.decide(ended.failure, self._history(target, ended))
        is_last = isinstance(decision, retry.GiveUp)
        if not attempt.is_recorded and is_last:
            attempt.record()
            ended = replace(ended, brief=self._reconnects.brief(target, ended))
        if is_last:
            self._add_to_trace(*self._reconnects.end_all())
        if attempt.is_recorded:
            self._tried.append(retry.Tried(target.name, ended.failure))
            self._trace_attempt(target, ended, then=done_after(decision))
        return decision, ended

    def _first_target(self) -> Target:
        """The preferred target, or the first one without a long gate or an open breaker."""
        shared, preferred = self._deps.shared, self._targets[0]
        for target in self._targets:
            if self._gate_ms(target) <= retry.LONG_WAIT_MS and not shared.breaker_wait_ms(target):
                if target is not preferred:
                    self._why_other = unresponsive(preferred.name)
                return target
        soonest = min(self._targets, key=self._gate_ms)
        if soonest is not preferred:
            self._why_other = asked_to_wait(preferred.name)
        return soonest

    async def _attempt(self, target: Target) -> tuple[Target, Answer | Classified]:
        """Make one attempt, or two at a time; returns the target that decided and how it ended."""
        self._supersede()
        nth = len(self._tried) + 1
        first = self._contender(target, self._sink, nth=nth)
        other = self._hedge_target(target)
        if other is None:
            self._newest = first.attempt
            ended = await first.run(None)
            self._note_progress(first.attempt)
            return target, ended
        second = self._hedge(other, nth=nth + 1)
        race = Race(first, second, self._deps.hedge_share, lambda: self._deps.shared.may_pass(other))
        decided = await race.run()
        for lost in race.lost:
            await self._count_loser(lost)
        self._newest = decided.attempt
        self._note_progress(decided.attempt)
        return decided.target, decided.ended

    def _hedge(self, target: Target, *, nth: int) -> Contender:
        """A second attempt, which is a probe if its target has been silent."""
        contender = self._contender(target, HeldSink(self._sink), nth=nth)

        async def run(on_progress: Callable[[], None] | None) -> Answer | Classified:
            with self._deps.shared.attempting(target):
                return await contender.run(on_progress)

        return Contender(target, contender.attempt, run, contender.sink)

    def _contender(self, target: Target, sink: EventSink, *, nth: int) -> Contender:
        unrecorded = self._reconnects.unrecorded_at(target)
        attempt = Attempt(
            self._deps, target, sink=sink, context=AttemptContext(self._call_id, nth, unrecorded)
        )

        def run(on_progress: Callable[[], None] | None) -> Awaitable[Answer | Classified]:
            def progressed() -> None:
                self._deps.shared.progressed(target)
                if on_progress is not None:
                    on_progress()

            hooks = Hooks(
                lambda: self._switch(target),
                lambda kind: self._would_do(target, kind),
                progressed,
                None if unrecorded is None else self._outage_line,
            )
            return attempt.run(self._asked, hooks=hooks)

        return Contender(target, attempt, run, sink)

    def _supersede(self) -> None:
        """Mark the output of a failed attempt as superseded, now that another one starts."""
        if self._failed_with_output:
            self._emit(e.AttemptSuperseded, attempt_id=self._failed_with_output)
            self._failed_with_output, self._had_output = "", True

    def _hedge_target(self, target: Target) -> Target | None:
        """The target to ask as well if this one is slow; None after visible output, or in an outage."""
        is_in_outage = self._reconnects.unrecorded_at(target) is not None
        if self._had_output or is_in_outage or not self._targets[0].retry.hedge:
            return None
        return retry.hedge_target(self._history(target, Classified(SLOW), random=0.0))

    def _note_progress(self, attempt: Attempt) -> None:
        if attempt.silent_s is not None:
            self._progress_s = self._now_s() - attempt.silent_s
            self._gated_s = 0.0
        if attempt.said:
            self._failed_with_output = attempt.attempt_id

    async def _count_loser(self, lost: Contender) -> None:
        """Count an attempt that lost the race, or failed in it, against the budget."""
        if lost.was_slower:
            self._tried.append(retry.Tried(lost.target.name, SLOW))
            self._trace_attempt(lost.target, Classified(SLOW), then=STOPPED)
            return
        ended = lost.ended
        if isinstance(ended, Classified):
            await self._share(lost.target, ended)
            self._tried.append(retry.Tried(lost.target.name, ended.failure))
            self._trace_attempt(lost.target, ended, then=HEDGED)

    def _would_do(self, target: Target, kind: FailureKind) -> str:
        """What the live line says will happen if the attempt fails in this way."""
        failure = Failure(kind=kind, text="")
        return would_do(self._asked.decide(failure, self._history(target, Classified(failure), random=0.0)))

    def _switch(self, target: Target) -> None:
        """Tell the user about another target when it's about to answer, not when it's merely asked."""
        if target.name != self._shown_target.name:
            why = self._why_other or slower(self._shown_target.name)
            if names := self._asked.unsupported(target):
                why = f"{why}; {target.name} answers without {listed(names)}"
            self._emit(e.TargetSwitched, from_target=self._shown_target.name, to_target=target.name, why=why)
            self._shown_target = target

    async def _share(self, target: Target, ended: Classified) -> None:
        """Share with all calls what this one has learned."""
        await self._deps.shared.failed(target, ended.failure)
        if ended.failure.kind == "rate_limited" and ended.wait_ms is not None:
            why = gate_reason(target.name, ended.brief)
            await self._deps.shared.close_gate(target, ended.wait_ms, why=why)

    def _choose_keys(self) -> None:
        """Give each target the key of its pool that this call should use now."""
        choose = self._deps.shared.with_open_key
        self._targets = tuple(choose(target, self._spent_keys) for target in self._targets)

    def _named(self, name: str) -> Target:
        return next(target for target in self._targets if target.name == name)

    async def _change_credential(
        self, target: Target, ended: Classified, *, token: str
    ) -> tuple[str, Classified]:
        """Use another key or token after a failure of this one alone.

        Returns what was done, or nothing, and the failure that counts then.
        """
        if not self._asked.is_replaceable:
            return "", ended
        if target.auth:
            return await self._renew_sign_in(target, ended, token=token)
        if not target.api_keys:
            return "", ended
        if ended.failure.kind in retry.OF_ONE_KEY and await self._drop_key(target, ended):
            return OTHER_KEY, ended
        self._choose_keys()  # if none is open, the one that opens first decides
        return "", replace(ended, wait_ms=ended.wait_ms and self._gate_ms(self._named(target.name)))

    async def _drop_key(self, target: Target, ended: Classified) -> bool:
        """Pause the target's key for all calls; False if there is no other that can be used now."""
        shared = self._deps.shared
        self._spent_keys |= {target.api_key}
        other = shared.with_open_key(target, self._spent_keys)
        if other.api_key in self._spent_keys or shared.gate_wait_ms(other) or shared.breaker_wait_ms(other):
            return False
        is_brief = ended.failure.kind == "rate_limited"
        pause_ms = int(1000 * target.retry.backoff_max_s) if is_brief else KEY_PAUSE_MS
        await shared.close_gate(target, pause_ms, why=gate_reason(target.name, ended.brief))
        return True

    async def _renew_sign_in(
        self, target: Target, ended: Classified, *, token: str
    ) -> tuple[str, Classified]:
        """Renew a token that the target rejected, once per call."""
        is_rejected = ended.failure.status == UNAUTHORIZED and bool(token)
        if not is_rejected or target.name in self._renewed:
            return "", ended
        began_s = self._now_s()
        self._sink.live = lambda: signing_in(target.auth, took_s=self._now_s() - began_s)
        authorized = await authorized_by(self._deps, target, token)
        if isinstance(authorized, Failure):
            return "", Classified(authorized, brief=authorized.text)
        self._renewed |= {target.name}
        return RENEWED, ended

    def _history(self, target: Target, ended: Classified, *, random: float | None = None) -> retry.History:
        shared = self._deps.shared
        now_ms = int(1000 * self._deps.clock.steady_s())
        return retry.History(
            targets=self._targets,
            current=target.name,
            tried=tuple(self._tried),
            now_ms=now_ms,
            last_progress_ms=now_ms - int(1000 * (self._now_s() - self._progress_s)),
            random=self._deps.random() if random is None else random,
            gated_ms=int(1000 * self._gated_s),
            wait_ms=ended.wait_ms,
            output_room_tokens=ended.output_room_tokens,
            unattended=self._deps.unattended,
            breakers={other.name: shared.breaker(other) for other in self._targets},
            gates={other.name: shared.gate(other) for other in self._targets},
            outages=self._reconnects.outages(),
            resumed=self._sink.resumed,
            never_answered=frozenset(other.name for other in self._targets if not shared.has_answered(other)),
        )

    def _trace_attempt(self, target: Target, ended: Classified, *, then: str) -> None:
        """The log file has every line; people see the trace only if the call fails for good."""
        failure = ended.failure
        what = ended.brief or failure.text
        line = attempt_line(len(self._tried), target.name, what=what, then=then)
        self._add_to_trace(line, rule=failure.rule)

    def _add_to_trace(self, *lines: str, rule: str = "") -> None:
        self._trace += lines
        for line in lines:
            _log.info("%s %s %s [%s]", self._sink.run_id, self._call_id, line, rule)

    def _no_answer(self, failure: Failure, *, wait_ms: int | None = None) -> NoAnswer:
        took_s = self._now_s() - self._began_s
        tried = [*(tried.target for tried in self._tried), *self._reconnects.unrecorded]
        cause = retry.failure_to_report(failure, self._tried)
        advised = cause.text if len(self._targets) > 1 else with_fallback_advice(cause)
        text = exhausted(advised, tried, took_s=took_s)
        _log.warning("%s %s %s: %s", self._sink.run_id, self._call_id, GAVE_UP, text)
        wait_ms = wait_ms if cause is failure else None
        return NoAnswer(self._call_id, replace(cause, text=text), tuple(self._trace), wait_ms)

    def _closed_for_too_long(self, target: Target) -> NoAnswer | None:
        """The end of the call if the gate stays closed for longer than its client waits."""
        wait_ms, most_ms = self._gate_ms(target), self._asked.wait_ms_max
        if most_ms is None or wait_ms <= most_ms:
            return None
        text = self._deps.shared.gate(target).why or asked_to_wait(target.name)
        failure = Failure(kind="rate_limited", text=text, rule="gate")
        return NoAnswer(self._call_id, failure, tuple(self._trace), wait_ms)

    async def _silent_for_too_long(self, target: Target) -> NoAnswer | None:
        """Wait until the breaker lets this call pass. Returns `NoAnswer` if that takes too long.

        One call at a time probes a silent target. A person's message needn't wait until a probe is due.
        """
        if not self._asked.waits_at_gates:
            return None
        shared, began_s = self._deps.shared, self._now_s()
        while not (shared.may_pass(target) or (self._is_early and shared.may_probe_early(target))):
            wait, why = shared.turn(target), unresponsive(target.name)
            if self._now_s() - began_s + wait.left_s > self._silent_s_max:
                text = f"{why}; other requests are waiting for it, too"
                failure = self._last_failure or Failure(kind="no_first_event", text=text, rule="breaker")
                return self._no_answer(failure, wait_ms=int(1000 * wait.left_s))
            self._show_wait(why, wait)
            self._is_early = await wait.is_skipped() or self._is_early
        self._is_early = False
        return None

    @property
    def _silent_s_max(self) -> float:
        if self._asked.wait_ms_max is not None:
            return self._asked.wait_ms_max / 1000
        return retry.idle_ms_max(unattended=self._deps.unattended) / 1000

    async def _pass_gate(self, target: Target) -> None:
        wait_ms = self._gate_ms(target)
        if wait_ms > retry.LONG_WAIT_MS:
            self._emit_gated(target, wait_ms, why=self._deps.shared.gate(target).why)
        if wait_ms:
            shared, why = self._deps.shared, asked_to_wait(target.name)
            self._sink.live = lambda: waiting_line(why, left_s=shared.gate_wait_ms(target) / 1000)
            await self._wait_at_gate(shared.wait_at_gate(target))

    async def _pause(self, target: Target, decision: retry.RetryAfter) -> None:
        if self._gate_ms(target):
            return  # the next attempt waits at the gate, where a person can skip the wait
        if decision.wait_s:
            await self._wait_out(decision.why, self._deps.shared.pause(target, int(1000 * decision.wait_s)))

    async def _reconnect(self, target: Target, ended: Classified, *, decision: retry.Reconnect) -> None:
        until_s = self._now_s() + decision.left_s
        why = unreachable(target.name, ended.failure.rule)
        self._outage_line = lambda: outage_line(why, left_s=until_s - self._now_s(), to=decision.to)
        if decision.wait_s and not self._gate_ms(target):
            self._sink.live = self._outage_line
            await self._deps.shared.pause(target, int(1000 * decision.wait_s)).is_skipped()

    async def _fall_back(self, target: Target, decision: retry.FallBack) -> Target:
        self._why_other, self._outage_line = decision.why, None
        if decision.wait_s:
            until_s = self._now_s() + decision.wait_s
            why = unreachable(target.name)
            self._sink.live = lambda: outage_line(why, left_s=until_s - self._now_s(), to=decision.to)
            await self._deps.clock.sleep_s(decision.wait_s)
        return next(other for other in self._targets if other.name == decision.to)

    async def _gate(self, target: Target, ended: Classified, *, decision: retry.Gated) -> None:
        shared = self._deps.shared
        if (ended.wait_ms or 0) > retry.LONG_WAIT_MS:
            # The wait applies to all calls with this endpoint and key; the next attempt waits at the gate. A
            # gate that is closed already keeps the provider's own words.
            if not self._gate_ms(target):
                await shared.close_gate(target, decision.wait_ms, why=decision.why)
        elif not self._gate_ms(target):
            self._emit_gated(target, decision.wait_ms, why=decision.why)
            await self._wait_at_gate(self._wait_out(decision.why, shared.pause(target, decision.wait_ms)))

    def _emit_gated(self, target: Target, wait_ms: int, *, why: str) -> None:
        until_ms = self._deps.clock.now_ms() + wait_ms
        self._emit(e.CallGated, call_id=self._call_id, until_ms=until_ms, target=target.name, why=why)

    async def _wait_at_gate(self, wait: Awaitable[None]) -> None:
        """Wait; this time counts neither as silence of the model nor as an outage."""
        began_s = self._now_s()
        await wait
        self._gated_s += self._now_s() - began_s
        self._add_to_trace(*self._reconnects.end_all())

    def _gate_ms(self, target: Target) -> int:
        return self._deps.shared.gate_wait_ms(target) if self._asked.waits_at_gates else 0

    async def _wait_out(self, why: str, wait: TargetWait) -> None:
        self._show_wait(why, wait)
        self._is_early = await wait.is_skipped()

    def _show_wait(self, why: str, wait: TargetWait) -> None:
        self._sink.live = lambda: waiting_line(why, left_s=wait.left_s)

    def _now_s(self) -> float:
        return self._deps.clock.monotonic_s()

    def _emit(self, kind: type[e.RunEvent], **fields: Any) -> None:
        self._sink.emit(kind(at_ms=self._sink.now_ms(), run_id=self._sink.run_id, **fields))


def preferred(targets: tuple[Target, ...], model: str) -> tuple[Target, ...]:
    """The targets, those with this name or else this model first; an unknown model changes nothing."""
    if not model:
        return targets
    wanted = [target for target in targets if target.name == model]
    wanted = wanted or [target for target in targets if target.model == model]
    return (*wanted, *(target for target in targets if target not in wanted))
