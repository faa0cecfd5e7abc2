"""State of the targets, shared by all runs and stored as notes: gates, breakers, learned patience.

Several servers may share the notes. Each change is made to the value that is stored, so none is lost; `load`
takes over what others have changed.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Container, Generator
from contextlib import contextmanager
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.decisions.gates import (
    Breaker,
    Gate,
    Moment,
    abandon_probe,
    after_failure,
    after_success,
    breaker_note,
    breaker_wait_ms,
    close_gate,
    dump_breaker,
    dump_gate,
    gate_note,
    gate_wait_ms,
    load_breaker,
    load_gate,
    pass_breaker,
    try_gate,
)
from holdfast.decisions.learned import (
    Learned,
    address_in,
    learn,
    learned_note,
    load_learned,
    p95_s,
    usual_s,
)
from holdfast.decisions.retry import addresses_of, outage_at
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import JournalError, Notes
from holdfast.targets import Target, address_of
from holdfast.values import Failure

_log = logging.getLogger(__name__)

P95_CHANGE_MIN = 0.1  # store a p95 once it has changed by a tenth, and
P95_CHANGE_MIN_S = 0.5  # by so much: patience is counted in many seconds
SWAPS_MAX = 10  # how often a change is tried again because another server was faster
_OPEN, _CLOSED = Gate(), Breaker()
RECHECK_S = 15.0  # after the computer has slept, its clock is ahead of its timers
STAGGER_MS = 100  # between calls that resume because their target has recovered
STAGGER_MS_MAX = 10_000  # for all of them together


class LastFailure(Struct, frozen=True):
    """The newest failed attempt at a target."""

    at_ms: int
    failure: Failure


class TargetActivity:
    """Counts open attempts, and keeps the newest success and failure of each target, since the start."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._active: Counter[str] = Counter()
        self._answered_ms: dict[str, int] = {}
        self._failures: dict[str, LastFailure] = {}
        self._is_failing: set[str] = set()

    def begin(self, target: Target) -> None:
        """Count an attempt from now on."""
        self._active[target.name] += 1

    def end(self, target: Target) -> None:
        """Count an attempt no more; call it once for each `begin`."""
        self._active[target.name] -= 1

    def answered(self, target: Target) -> None:
        """Note a success."""
        self._answered_ms[target.name] = self._clock.now_ms()
        self._is_failing.discard(target.name)

    def failed(self, target: Target, failure: Failure) -> None:
        """Note a failure."""
        self._failures[target.name] = LastFailure(self._clock.now_ms(), failure)
        self._is_failing.add(target.name)

    def active(self, target: Target) -> int:
        """How many attempts are under way."""
        return self._active[target.name]

    def answered_ms(self, target: Target) -> int | None:
        """When the target last answered; None if it hasn't."""
        return self._answered_ms.get(target.name)

    def last_failure(self, target: Target) -> LastFailure | None:
        """The newest failure, whatever came after it."""
        return self._failures.get(target.name)

    def failing(self, target: Target) -> Failure | None:
        """The newest failure, unless the target has answered since."""
        return self._failures[target.name].failure if target.name in self._is_failing else None


WaitFor: TypeAlias = Literal["time", "recovery", "turn"]


class TargetWait:
    """One call's wait for a target, until a time at most; a person can skip it.

    A wait for recovery also ends when the target answers another call, and a wait for a turn when another
    call's probe has ended.
    """

    def __init__(self, states: "TargetStates", target: Target, wait_ms: int, *, ends_with: WaitFor) -> None:
        self._states = states
        self._target = target
        self.ends_with: WaitFor = ends_with
        self.until_ms = states.now_ms() + wait_ms

    @property
    def left_s(self) -> float:
        """How long it lasts, as far as is known now."""
        return (self.until_ms - self._states.now_ms()) / 1000

    async def is_skipped(self) -> bool:
        """Wait; return whether a person has skipped the rest."""
        return await self._states.is_skipped(
            self._target, lambda: self.until_ms - self._states.now_ms(), wait=self
        )


class TargetStates:
    """The state of every target, shared by all runs; loaded once, and stored when it changes."""

    def __init__(self, notes: Notes, clock: Clock) -> None:
        self._notes = notes
        self._clock = clock
        self.activity = TargetActivity(clock)
        self._gates: dict[str, Gate] = {}
        self._breakers: dict[str, Breaker] = {}
        self._learned: dict[str, Learned] = {}
        self._stored: dict[str, bytes] = {}  # the notes as this process knows them
        self._unsaved: dict[str, list[Callable[[], object]]] = {}  # changes that no note has yet
        self._saving: dict[str, asyncio.Lock] = {}
        self._saved_p95_s: dict[str, float] = {}
        self._plain: set[str] = set()  # targets that refuse reasoning settings; every process finds out anew
        self._passes: set[str] = set()  # gates that the next waiting call may pass
        self._sleeping: dict[str, dict[asyncio.Timeout, TargetWait | None]] = {}  # in order of arrival
        self._probes: dict[str, object] = {}  # attempts under way that passed an open breaker, one for each
        self._unsaved_progress: set[str] = set()  # breakers closed by progress, not yet in a note
        self._answered: set[str] = set()  # addresses that have ever answered, in this process or before
        self._outage_since_s: dict[str, float] = {}  # unreachable addresses, by the monotonic clock

    async def load(self) -> None:
        """Load what earlier processes and other servers have stored."""
        for prefix in ("gate:", "breaker:", "learned:"):
            for key, raw in (await self._notes.notes(prefix)).items():
                if raw != self._stored.get(key):
                    self._take(key, raw)

    def _take(self, key: str, raw: bytes | None) -> None:
        """Use a stored value from now on."""
        if raw is None:
            self._stored.pop(key, None)
        else:
            self._stored[key] = raw
        if key.startswith("gate:"):
            self._hold_gate(key, Gate() if raw is None else load_gate(raw, self._moment()))
        elif key.startswith("breaker:"):
            was_open = self._breakers.get(key, _CLOSED).cooldown_ms
            self._breakers[key] = Breaker() if raw is None else load_breaker(raw, self._moment())
            if was_open and not self._breakers[key].cooldown_ms:
                for endpoint in list(self._sleeping):
                    self._resume(endpoint)
        else:
            self._learned[key] = Learned() if raw is None else load_learned(raw)
            self._answered.add(address_in(key))

    def asks_plainly(self, target: Target) -> bool:
        """Whether requests to the target have no reasoning settings."""
        return learned_note(target) in self._plain

    def ask_plainly(self, target: Target) -> None:
        """Send no reasoning settings any more: the target refused them."""
        self._plain.add(learned_note(target))

    def with_open_key(self, target: Target, spent: Container[str] = ()) -> Target:
        """The target with the first key of its pool that can be used now, or soonest; `spent` ones last."""
        if not target.api_keys:
            return target

        def rank(one: Target) -> tuple[int, bool]:
            return max(self.gate_wait_ms(one), self.breaker_wait_ms(one)), one.api_key in spent

        return min((replace(target, api_key=key) for key in target.api_keys), key=rank)

    def gate(self, target: Target) -> Gate:
        """The gate of the target's endpoint and key."""
        return self._gates.get(gate_note(target), _OPEN)

    def breaker(self, target: Target) -> Breaker:
        """The target's breaker."""
        return self._breakers.get(breaker_note(target), _CLOSED) if self._breakers else _CLOSED

    def gate_wait_ms(self, target: Target) -> int:
        """How long the gate stays closed."""
        return gate_wait_ms(self.gate(target), self.now_ms()) if self._gates else 0

    def breaker_wait_ms(self, target: Target) -> int:
        """How long the breaker stays open."""
        breaker = self.breaker(target)
        return breaker_wait_ms(breaker, self.now_ms()) if breaker.cooldown_ms else 0

    async def close_gate(self, target: Target, wait_ms: int, *, why: str) -> None:
        """Close the gate, because the provider asked for a wait."""

        def closed(gate: Gate) -> Gate:
            return close_gate(gate, wait_ms, now_ms=self.now_ms(), why=why)

        before = self.gate(target)
        if closed(before) is not before:
            self._passes.discard(gate_note(target))
            await self._change_gate(target, closed)

    async def wait_at_gate(self, target: Target) -> None:
        """Wait until the gate opens, or until a person skips the wait."""
        await self.is_skipped(target, lambda: self.gate_wait_ms(target))

    def pause(self, target: Target, wait_ms: int) -> TargetWait:
        """A wait before this call's next attempt; it ends early if a silent target recovers."""
        is_away = self.breaker(target).cooldown_ms or self.is_unreachable(target)
        return TargetWait(self, target, wait_ms, ends_with="recovery" if is_away else "time")

    def turn(self, target: Target) -> TargetWait:
        """A wait until a probe is due and the one under way has ended, as far as is known now."""
        wait_ms = self.breaker_wait_ms(target) or self.breaker(target).cooldown_ms
        return TargetWait(self, target, wait_ms, ends_with="turn")

    async def is_skipped(
        self, target: Target, left_ms: Callable[[], int], *, wait: TargetWait | None = None
    ) -> bool:
        """Wait until no time is left; return whether a person has skipped the rest."""
        key = gate_note(target)
        while (wait_ms := left_ms()) > 0:
            if key in self._passes:
                self._passes.remove(key)
                return True
            scope = asyncio.timeout(None)
            try:
                async with scope:
                    self._sleeping.setdefault(key, {})[scope] = wait
                    await self._clock.sleep_s(min(wait_ms / 1000, RECHECK_S))
            except TimeoutError:
                continue  # something has changed
            finally:
                self._sleeping.get(key, {}).pop(scope, None)
        return False

    def _resume(self, key: str) -> None:
        """Resume the calls that wait for the target to recover, one after the other."""
        sleeping = self._sleeping.pop(key, {})
        waits = [wait for wait in sleeping.values() if wait is not None and wait.ends_with != "time"]
        step_ms = min(STAGGER_MS, STAGGER_MS_MAX // max(1, len(waits)))
        for nth, wait in enumerate(waits):
            wait.until_ms = min(wait.until_ms, self.now_ms() + nth * step_ms)
        for scope in sleeping:
            scope.reschedule(0)

    async def try_now(self, target: Target) -> bool:
        """Let one attempt pass, because a person doesn't want to wait; False if one has passed already."""
        if try_gate(self.gate(target), self.now_ms()) is None:
            return False
        self._passes.add(gate_note(target))
        await self._change_gate(target, lambda gate: try_gate(gate, self.now_ms()) or gate)
        return True

    async def open_gate(self, target: Target, closed: Gate) -> None:
        """Open the gate if it's still the one that was closed then."""
        if closed.until_ms and self.gate(target) is closed:
            # A server that was faster has closed it anew, and its provider knows better.
            await self._change_gate(target, lambda gate: Gate() if gate is closed else gate)

    def waiting(self, target: Target) -> int:
        """How many calls wait for the target's endpoint and key."""
        return len(self._sleeping.get(gate_note(target), ()))

    def may_pass(self, target: Target) -> bool:
        """Whether the breaker lets an attempt through; one that passes an open breaker is its probe."""
        breaker = self.breaker(target)
        if not breaker.cooldown_ms:
            return True
        key = breaker_note(target)
        if key in self._probes:
            return False
        passed = pass_breaker(breaker, self.now_ms())
        if passed is not None:
            self._breakers[key] = passed
        return passed is not None

    def may_probe_early(self, target: Target) -> bool:
        """Whether a person's message, which doesn't wait for the next probe, can be an extra one."""
        return breaker_note(target) not in self._probes

    @contextmanager
    def attempting(self, target: Target) -> Generator[None]:
        """Make an attempt. If the breaker is open and there is no probe yet, others wait for this one."""
        if not self.breaker(target).cooldown_ms or (key := breaker_note(target)) in self._probes:
            yield
            return
        self._probes[key] = probe = object()
        try:
            yield
        except BaseException:
            self._breakers[key] = abandon_probe(self.breaker(target), self.now_ms())
            raise
        finally:
            if self._probes.get(key) is probe:
                del self._probes[key]
            self._end_turns(gate_note(target))

    def _end_turns(self, key: str) -> None:
        sleeping = self._sleeping.get(key, {})
        for scope, wait in list(sleeping.items()):
            if wait is not None and wait.ends_with == "turn":
                wait.until_ms = self.now_ms()
                del sleeping[scope]  # it can be woken once
                scope.reschedule(0)

    def progressed(self, target: Target) -> None:
        """Note that an attempt makes progress, so that calls waiting for the target continue."""
        if not (self._breakers or self._probes):
            return
        key = breaker_note(target)
        self._probes.pop(key, None)  # it has found out, however long its answer takes
        breaker = self._breakers.get(key, _CLOSED)
        if breaker != _CLOSED:
            self._breakers[key] = after_success()
            self._unsaved_progress.add(key)
            if breaker.cooldown_ms:
                self._resume(gate_note(target))

    async def failed(self, target: Target, failure: Failure) -> None:
        """Count a failed attempt."""
        self.activity.failed(target, failure)
        await self._change_breaker(
            target, lambda breaker: after_failure(breaker, failure.kind, now_ms=self.now_ms())
        )

    def has_answered(self, target: Target) -> bool:
        """Whether the target's address has ever answered."""
        return address_of(target.base_url) in self._answered

    def is_unreachable(self, target: Target) -> bool:
        """Whether nobody was there when the target, or its proxy, was last called."""
        unreachable = self._outage_since_s.keys()
        return bool(unreachable) and not unreachable.isdisjoint(addresses_of(target))

    def outage_s(self, target: Target, failure: Failure) -> float:
        """How long the address that failed has been unreachable; 0 if it wasn't so far."""
        now_s = self._clock.monotonic_s()
        return now_s - self._outage_since_s.setdefault(outage_at(target, failure), now_s)

    async def reached(self, target: Target) -> None:
        """Note that the target's address answers, whatever it says."""
        if self.is_unreachable(target):
            for address in addresses_of(target):
                self._outage_since_s.pop(address, None)
            self._resume(gate_note(target))
        if not self.has_answered(target):
            self._answered.add(address_of(target.base_url))
            key = learned_note(target)
            await self._store(key, lambda: msgspec.json.encode(self._learned.get(key, Learned())))

    async def answered(self, target: Target) -> None:
        """Note that an attempt succeeded; if it passed a closed gate, the gate opens."""
        self.activity.answered(target)
        key = breaker_note(target)
        if key in self._unsaved_progress or self._breakers.get(key, _CLOSED) != _CLOSED:
            await self._change_breaker(target, lambda _: after_success())
        if self._gates and self.gate(target).tried:
            await self._change_gate(target, lambda gate: Gate() if gate.tried else gate)

    async def got_first_event(self, target: Target, input_tokens: int, *, first_event_s: float) -> None:
        """Note how soon an attempt got its first event."""
        await self.reached(target)
        key = learned_note(target)

        def learn_it() -> Learned:
            before = self._learned.get(key, Learned())
            self._learned[key] = learn(before, input_tokens, first_event_s=first_event_s)
            return self._learned[key]

        learned = learn_it()
        if max(first_event_s, self._saved_p95_s.get(key, 0.0)) <= P95_CHANGE_MIN_S:
            return  # a quick answer of a quick target
        now_s = p95_s(learned, input_tokens) or 0.0
        if abs(now_s - self._saved_p95_s.get(key, 0.0)) > max(P95_CHANGE_MIN * now_s, P95_CHANGE_MIN_S):
            self._saved_p95_s[key] = now_s
            await self._store(key, lambda: msgspec.json.encode(self._learned[key]), again=learn_it)

    def learned_p95_s(self, target: Target, input_tokens: int) -> float | None:
        """The target's recent p95 for requests of this size, if known."""
        learned = self._learned.get(learned_note(target))
        return None if learned is None else p95_s(learned, input_tokens)

    def usual_s(self, target: Target, input_tokens: int) -> float | None:
        """The target's p95 for requests of this size, if it has answered many."""
        return usual_s(self.learned(target), input_tokens)

    def learned(self, target: Target) -> Learned:
        """Return the target's learned first-event times."""
        return self._learned.get(learned_note(target), Learned())

    async def _change_gate(self, target: Target, change: Callable[[Gate], Gate]) -> None:
        key = gate_note(target)

        def change_it() -> None:
            self._hold_gate(key, change(self.gate(target)))

        change_it()
        await self._store(key, lambda: dump_gate(self.gate(target), self._moment()), again=change_it)

    def _hold_gate(self, key: str, gate: Gate) -> None:
        self._gates[key] = gate
        for scope in self._sleeping.pop(key, ()):
            scope.reschedule(0)

    async def _change_breaker(self, target: Target, change: Callable[[Breaker], Breaker]) -> None:
        key, before = breaker_note(target), self.breaker(target)

        def change_it() -> None:
            self._breakers[key] = change(self.breaker(target))

        change_it()
        if before.cooldown_ms and not self.breaker(target).cooldown_ms:
            self._resume(gate_note(target))
        if self.breaker(target) != before or key in self._unsaved_progress:
            self._unsaved_progress.discard(key)
            await self._store(
                key, lambda: dump_breaker(self.breaker(target), self._moment()), again=change_it
            )

    def now_ms(self) -> int:
        """The monotonic time, in milliseconds."""
        return int(1000 * self._clock.steady_s())

    def _moment(self) -> Moment:
        return Moment(self.now_ms(), self._clock.now_ms())

    async def _store(
        self, key: str, value: Callable[[], bytes], *, again: Callable[[], object] = lambda: None
    ) -> None:
        """Store what this process holds; if another was faster, take its value and make the change `again`.

        Calls that change a note at the same time share one write. A failure may cost time after a restart,
        but doesn't fail the call.
        """
        unsaved = self._unsaved.setdefault(key, [])
        unsaved.append(again)
        try:
            async with self._saving.setdefault(key, asyncio.Lock()):
                if again in unsaved:
                    await self._save(key, value)
        except JournalError as error:
            _log.warning("couldn't write the note %s: %s", key.partition(":")[0], error)
        finally:
            if again in unsaved:
                unsaved.remove(again)

    async def _save(self, key: str, value: Callable[[], bytes]) -> None:
        """Write all changes of a note that are unsaved."""
        unsaved = self._unsaved[key]
        for _ in range(SWAPS_MAX):
            wanted, saved = value(), list(unsaved)
            if await self._notes.swap_note(key, wanted, expected=self._stored.get(key)):
                self._stored[key] = wanted
                unsaved[:] = [change for change in unsaved if change not in saved]
                return
            self._take(key, await self._notes.note(key))
            for change in unsaved:
                change()
        _log.warning("couldn't write the note %s: others keep changing it", key.partition(":")[0])
