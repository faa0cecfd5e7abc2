"""The doctor's checks of the targets: one tiny call each, and what to do if it fails."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from urllib.parse import urlsplit

from msgspec.structs import replace
from typing_extensions import override

from holdfast import events as e
from holdfast.cli.doctor.findings import DoctorFinding, fault, note, ok
from holdfast.decisions.deadlines import is_local
from holdfast.decisions.failure_rules import RULES
from holdfast.decisions.failure_texts import proxy_place
from holdfast.decisions.proxies import proxy_secrets
from holdfast.interfaces.model import Answer
from holdfast.interfaces.system_clock import SystemClock
from holdfast.interfaces.unrecorded_sink import UnrecordedSink
from holdfast.journal.memory import MemoryStore
from holdfast.messages import ModelRequest, UserMessage
from holdfast.models.attempt import CallDeps
from holdfast.models.call import ModelCalls
from holdfast.models.http import ModelHttp
from holdfast.models.target_states import TargetStates
from holdfast.redaction import Redactor
from holdfast.targets import Patience, RetryLimits, Target
from holdfast.values import Failure, FailureKind

REQUEST = ModelRequest(messages=(UserMessage("Say ok."),), max_output_tokens=64)
CALL_S, CALL_LOCAL_S, GRACE_S = 30.0, 90.0, 5.0
# The model was reached and worked; a few tokens just weren't enough for an answer.
WORKS: frozenset[FailureKind] = frozenset({"truncated", "empty", "overflow_output", "content_refused"})

_WAIT = "wait a while and try again; runs wait or fall back by themselves"
_SILENT = "it is overloaded or unreachable; try again, or add another target as a fallback"
_REQUEST = "check `wire`, `base_url` and `model` of the target; the endpoint rejects the request"
ADVICE: Mapping[FailureKind, str] = MappingProxyType(
    {
        "cancelled": "try again",
        "local_bug": "this is a bug in Holdfast; please report it with the line above",
        "bad_request": _REQUEST,
        "payload_too_large": _REQUEST,
        "model_missing": "check `model`; the endpoint doesn't offer it, or not for this key",
        "content_refused": "the model refused a plain greeting; check the provider's console",
        "auth": "check `api_key`; the provider doesn't know it, or it has expired",
        "entitlement": "this key's plan doesn't include the model; choose another, or upgrade the plan",
        "quota_exhausted": "the account has no credit left; add some, or use another key",
        "rate_limited": _WAIT,
        "overloaded": _SILENT,
        "server_error": _SILENT,
        "connect_failed": "check `base_url`, the network and any proxy; a local server must be running",
        "upload_stalled": _SILENT,
        "no_first_event": _SILENT,
        "stalled": _SILENT,
        "dropped": "something between here and the provider breaks streams; check proxies and VPNs",
        "malformed": "check `wire`; the endpoint speaks another protocol",
        "tls_untrusted": "the certificate is not trusted; check `base_url`, or add the CA to the system",
        "overflow_input": "raise the model's context window; even a greeting doesn't fit",
        "overflow_output": _REQUEST,
        "truncated": _REQUEST,
        "empty": _REQUEST,
        "unknown": _SILENT,
    }
)
PROXY_RULES = frozenset({"407"} | {rule.name for rule in RULES if rule.name.startswith("proxy.")})
PROXY_ADVICE = (
    "check the proxy: `proxy` of the target, or the variable that `holdfast config check` shows for it"
)


class _ProbeSink(UnrecordedSink):
    """Keeps why attempts failed, and when the first text arrived."""

    failure: Failure | None = None
    first_s: float | None = None

    @override
    def emit(self, event: e.Event) -> None:
        if isinstance(event, e.AttemptFailed):
            self.failure = event.failure

    @override
    def say(self, segment: int, text: str) -> None:
        self.first_s = self.first_s or self._clock.monotonic_s()

    @override
    def think(self, segment: int, text: str) -> None:
        self.say(segment, text)


async def ask_targets(targets: Sequence[Target], *, call_s: float = 0.0) -> Sequence[DoctorFinding]:
    """One finding for each target; calls all at once. `call_s` 0 means the usual patience."""
    async with ModelHttp() as http, asyncio.TaskGroup() as group:
        asked = [
            group.create_task(_ask(target, http, call_s=call_s or _call_s(target))) for target in targets
        ]
    return [task.result() for task in asked]


def _call_s(target: Target) -> float:
    return CALL_LOCAL_S if is_local(urlsplit(target.base_url).hostname or "") else CALL_S


async def _ask(target: Target, http: ModelHttp, *, call_s: float) -> DoctorFinding:
    clock, store = SystemClock(), MemoryStore()
    ear = _ProbeSink("doctor", clock)
    patience = Patience(
        connect_s=10, upload_s=10, first_event_s=call_s, first_progress_s=call_s, gap_s=call_s
    )
    limits = RetryLimits(attempts_max=1, attempts_per_target_max=1, unreachable_s=0)
    once = replace(target, patience=patience, retry=limits)
    calls = ModelCalls(CallDeps(http, TargetStates(store, clock), store, clock, random.random), (once,))
    began_s = clock.monotonic_s()
    try:
        async with asyncio.timeout(call_s + GRACE_S):
            answer = await calls.answer(REQUEST, ear, turn=1)
    except TimeoutError:
        failure = ear.failure or Failure(kind="no_first_event", text=f"no answer in {call_s:g} s")
    else:
        if isinstance(answer, Answer):
            return _answered(target, clock.monotonic_s() - began_s, first_s=(ear.first_s or 0) - began_s)
        failure = answer.failure
    finally:
        await store.close()
    return failed(target, failure)


def _answered(target: Target, took_s: float, *, first_s: float) -> DoctorFinding:
    first = f", first word after {first_s:.1f} s" if first_s > 0 else ""
    way = f", through {proxy_place(target)}" if target.proxy else ""
    told = f"{target.model} answered in {took_s:.1f} s{first}{way}"
    return ok(f"target {target.name}", told, took_s=took_s)


def failed(target: Target, failure: Failure) -> DoctorFinding:
    """The finding for a failed call, with advice; it never contains the key."""
    secrets = Redactor([target.api_key, *target.headers.values(), *proxy_secrets(target.proxy)])
    text = f"{failure.kind.replace('_', ' ')}: {secrets.redact_text(failure.text)}"
    name = f"target {target.name}"
    if failure.kind in WORKS:
        return ok(name, f"{target.model} was reached ({text})", kind=failure.kind)
    make = note if failure.kind in {"rate_limited", "overloaded"} else fault
    usual = PROXY_ADVICE if failure.rule in PROXY_RULES else ADVICE[failure.kind]
    advice = f"{usual}{'; ' if failure.hint else ''}{failure.hint}"
    return make(name, text, advice, kind=failure.kind, status=failure.status, code=failure.code)
