"""One tiny real call to one target, which shows whether it works."""

import asyncio
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import override

from holdfast import events as e
from holdfast.decisions import retry
from holdfast.decisions.failure_texts import secrets_of
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.interfaces.unrecorded_sink import UnrecordedSink
from holdfast.messages import ModelRequest, UserMessage
from holdfast.models.call import ModelCalls
from holdfast.models.call_deps import CallDeps
from holdfast.models.call_request import AskForLess, ConversationRequest
from holdfast.redaction import Redactor
from holdfast.targets import Target
from holdfast.values import Failure, FailureKind

REQUEST = ModelRequest(messages=(UserMessage("Say ok."),), max_output_tokens=64, options_are_ours=True)
# The model was reached and worked; a few tokens just weren't enough for an answer.
WORKS: frozenset[FailureKind] = frozenset({"truncated", "empty", "overflow_output", "content_refused"})


class Probed(Struct, frozen=True):
    """The result of the call; without a `failure`, the model answered."""

    took_s: float
    first_s: float | None  # until the first text or reasoning
    failure: Failure | None


class _ProbeRequest(ConversationRequest):
    """Asks at once and once: it passes a closed gate, and a failure is the result."""

    waits_at_gates = False
    is_replaceable = False

    @override
    def decide(self, failure: Failure, history: retry.History) -> retry.Decision:
        decision = super().decide(failure, history)
        return decision if isinstance(decision, AskForLess) else retry.GiveUp(failure.kind)


class _ProbeSink(UnrecordedSink):
    """Keeps why attempts failed, and when the first text arrived."""

    failure: Failure | None = None
    first_s: float | None = None

    def __init__(self, name: str, clock: Clock, heard: Callable[[e.Event], None] | None) -> None:
        super().__init__(name, clock)
        self._heard = heard
        self._call_id = ""

    @override
    def emit(self, event: e.Event) -> None:
        if isinstance(event, e.CallStarted):
            self._call_id = event.call_id
        elif isinstance(event, e.AttemptFailed):
            self.failure = event.failure
        if self._heard is not None:
            self._heard(event)

    def close(self, *, answered: bool) -> None:
        """Tell whoever counts open calls that this one is over."""
        finish = "stop" if answered else "failed"
        self.emit(e.CallEnded(at_ms=self.now_ms(), run_id=self.run_id, call_id=self._call_id, finish=finish))

    @override
    def say(self, segment: int, text: str) -> None:
        self.first_s = self.first_s or self._clock.monotonic_s()

    @override
    def think(self, segment: int, text: str) -> None:
        self.say(segment, text)


async def probe(
    deps: CallDeps, target: Target, *, seconds_max: float, heard: Callable[[e.Event], None] | None = None
) -> Probed:
    """Make the call, through the same path as every other; `heard` gets its events.

    An answer opens a gate that was closed before: the provider has shown that it no longer means it.
    """
    clock, shared = deps.clock, deps.shared
    sink, gate = _ProbeSink(f"probe of {target.name}", clock, heard), shared.gate(target)
    request = _ProbeRequest(REQUEST, shared, deps.blobs)
    began_s = clock.monotonic_s()
    answer: Answer | NoAnswer | None = None
    failure: Failure | None
    try:
        async with asyncio.timeout(seconds_max):
            answer = await ModelCalls(deps, (target,)).make(request, sink, turn=1)
    except TimeoutError:
        text = f"no answer in {seconds_max:g} s; a model that's still loading might need longer"
        failure = Failure(kind="no_first_event", text=text)
    else:
        failure = None if isinstance(answer, Answer) else sink.failure or answer.failure
        if failure is None:
            await shared.open_gate(target, gate)
    finally:
        sink.close(answered=isinstance(answer, Answer))
    first_s = None if sink.first_s is None else sink.first_s - began_s
    return Probed(clock.monotonic_s() - began_s, first_s, _redacted(failure, target))


def _redacted(failure: Failure | None, target: Target) -> Failure | None:
    return None if failure is None else replace(failure, text=redact_for(target, failure.text))


def redact_for(target: Target, text: str) -> str:
    """The text without the target's key, the values of its headers and its proxy's password."""
    secrets = Redactor([*target.api_keys, *secrets_of(target), *target.headers.values()])
    return secrets.redact_text(text)
