"""The doctor's checks of the targets: one tiny call each, and what to do if it fails."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from urllib.parse import urlsplit

from msgspec.structs import replace

from holdfast.cli.doctor.findings import DoctorFinding, fault, note, ok
from holdfast.decisions.deadlines import is_local
from holdfast.decisions.failure_rules import RULES
from holdfast.decisions.failure_texts import proxy_place
from holdfast.host.probe import WORKS, Probed, probe
from holdfast.interfaces.model import Authorize
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory import MemoryStore
from holdfast.models.call_deps import CallDeps
from holdfast.models.http import ModelHttp
from holdfast.models.target_states import TargetStates
from holdfast.redaction import NO_SECRETS
from holdfast.targets import Patience, Target
from holdfast.values import Failure, FailureKind

CALL_S, CALL_LOCAL_S, GRACE_S = 30.0, 90.0, 5.0

_WAIT = "wait a while and try again; runs wait or fall back automatically"
_SILENT = "it's overloaded or unreachable; try again, or add a fallback target"
_REQUEST = "the endpoint rejects the request; check `wire`, `base_url` and `model` of the target"
ADVICE: Mapping[FailureKind, str] = MappingProxyType(
    {
        "cancelled": "try again",
        "local_bug": "this is a bug in Holdfast; report it with the line above",
        "bad_request": _REQUEST,
        "payload_too_large": _REQUEST,
        "model_missing": "check `model`; it isn't available at this endpoint or to this key",
        "content_refused": "the model refused a plain greeting; check the provider's console",
        "auth": "check `api_key`; it's invalid or expired",
        "entitlement": "this key's plan doesn't include the model; choose another, or upgrade the plan",
        "quota_exhausted": "the account has no credit left; add some, or use another key",
        "rate_limited": _WAIT,
        "overloaded": _SILENT,
        "server_error": _SILENT,
        "connect_failed": "check `base_url`, the network and any proxy; a local server must be running",
        "upload_stalled": _SILENT,
        "no_first_event": _SILENT,
        "stalled": _SILENT,
        "dropped": "the stream breaks on its way from the provider; check proxies and VPNs",
        "malformed": "check `wire`; the endpoint uses another protocol",
        "tls_untrusted": "the certificate isn't trusted; check `base_url`, or add the CA to the system",
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


async def ask_targets(
    targets: Sequence[Target], *, call_s: float = 0.0, authorize: Authorize | None = None
) -> Sequence[DoctorFinding]:
    """One finding for each target, or each of its keys; calls all at once. `call_s` 0: the usual patience."""
    async with ModelHttp() as http, asyncio.TaskGroup() as group:
        asked = [
            group.create_task(_ask(one, http, call_s=call_s or _call_s(one), authorize=authorize))
            for target in targets
            for one in _each_key(target)
        ]
    return [task.result() for task in asked]


def _each_key(target: Target) -> Sequence[Target]:
    if not target.api_keys:
        return (target,)
    return [
        replace(target, name=f"{target.name} (key {nth})", api_key=key, api_keys=())
        for nth, key in enumerate(target.api_keys, 1)
    ]


def _call_s(target: Target) -> float:
    return CALL_LOCAL_S if is_local(urlsplit(target.base_url).hostname or "") else CALL_S


async def _ask(
    target: Target, http: ModelHttp, *, call_s: float, authorize: Authorize | None
) -> DoctorFinding:
    clock, store = SystemClock(), MemoryStore(NO_SECRETS)
    patience = Patience(
        connect_s=10, upload_s=10, first_event_s=call_s, first_progress_s=call_s, gap_s=call_s
    )
    deps = CallDeps(
        lambda: http, TargetStates(store, clock), store, clock, random.random, authorize=authorize
    )
    try:
        probed = await probe(deps, replace(target, patience=patience), seconds_max=call_s + GRACE_S)
    finally:
        await store.close()
    return _answered(target, probed) if probed.failure is None else _failed(target, probed.failure)


def _answered(target: Target, probed: Probed) -> DoctorFinding:
    took_s = probed.took_s
    first = "" if probed.first_s is None else f", first word after {probed.first_s:.1f} s"
    way = f", through {proxy_place(target)}" if target.proxy else ""
    told = f"{target.model} answered in {took_s:.1f} s{first}{way}"
    return ok(f"target {target.name}", told, took_s=took_s)


def _failed(target: Target, failure: Failure) -> DoctorFinding:
    """The finding for a failed call, with advice."""
    text = f"{failure.kind.replace('_', ' ')}: {failure.text}"
    name = f"target {target.name}"
    if failure.kind in WORKS:
        return ok(name, f"{target.model} was reached ({text})", kind=failure.kind)
    make = note if failure.kind in {"rate_limited", "overloaded"} else fault
    usual = PROXY_ADVICE if failure.rule in PROXY_RULES else ADVICE[failure.kind]
    advice = f"{usual}{'; ' if failure.hint else ''}{failure.hint}"
    return make(name, text, advice, kind=failure.kind, status=failure.status, code=failure.code)
