"""Failures of model calls: the table of their classes, and the function that finds the class."""

import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

import msgspec

from holdfast.decisions.deadlines import Deadline
from holdfast.decisions.error_facts import STATUS_MIN, ErrorFacts, error_facts, server_time
from holdfast.decisions.failure_rules import RULES, STATUS_OF_CODE, Again, Break, FailureRule, Need, Stage
from holdfast.decisions.failure_texts import (
    break_text,
    deadline_text,
    endpoint_place,
    length_text,
    provider_text,
    proxy_place,
    setting_of,
)
from holdfast.model_events import ErrorReported, FinishReason
from holdfast.targets import Target
from holdfast.values import Failure, FailureKind

Fallback: TypeAlias = Literal[
    "never", "yes", "once", "from_second", "long_wait", "larger_window", "other_host", "elsewhere"
]
Silence: TypeAlias = Literal["counts", "neutral", "answers"]

REDIRECTS = range(300, 400)
PROXY_WANTS_LOGIN = 407
ROOM_TOKENS_MIN = 1_024  # less than this isn't enough for an answer

# Error texts that say how many tokens are left for an answer: the window minus the request, or the cap.
_WINDOW = r"maximum context length is (?P<window>\d{1,9}) tokens"
_USED = r"(?P<used>\d{1,9})"
_ANY = r"\d{1,9}"
_PARTS = (
    rf"\({_USED} (?:in the messages|of text input)(?:, (?P<more>{_ANY}) (?:in the functions|of tool input))?"
)

WINDOWS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        rf"exceed context limit: {_USED} \+ {_ANY} > (?P<window>\d{{1,9}})",
        rf"{_WINDOW} and your request has {_USED} input",
        rf"{_WINDOW}\. however, you requested {_ANY} output tokens and your prompt contains at least {_USED}",
        rf"{_WINDOW}\. however, you requested (?:about )?{_ANY} tokens {_PARTS}",
    )
)
CAPS: tuple[re.Pattern[str], ...] = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        r"supports at most (?P<cap>\d{1,9}) completion tokens",
        r"max_tokens: \d{1,9} > (?P<cap>\d{1,9}), which is the maximum",
        r"valid range of max_tokens is \[1, (?P<cap>\d{1,9})\]",
        r"max_(?:completion_)?tokens[^.]{0,60} must be less than or equal to `?(?P<cap>\d{1,9})",
        r"maximum tokens you requested exceeds? the model limit of (?P<cap>\d{1,9})",
    )
)


class Treatment(msgspec.Struct, frozen=True):
    """A row of the table: what follows from a class, and how it is worded.

    `silence` is for the breaker: the failure counts as silence, is neutral, or shows that the target answers.
    """

    again: Again
    fallback: Fallback
    was: str
    advice: str
    silence: Silence = "answers"


LATER = "try again in a few minutes"
RESET = "wait until the limit resets"
_SHORTEN = "shorten the conversation or choose a model with a larger window"

TREATMENTS: dict[FailureKind, Treatment] = {
    "cancelled": Treatment("never", "never", "was stopped", "", "neutral"),
    "local_bug": Treatment(
        "never", "never", "failed here", "this is a bug in Holdfast: report it", "neutral"
    ),
    "bad_request": Treatment(
        "never", "yes", "rejected the request", "check base_url, model and settings of {target}"
    ),
    "payload_too_large": Treatment(
        "never",
        "yes",
        "rejected the request as too large",
        "send fewer or smaller images and files, or a shorter message",
    ),
    "model_missing": Treatment(
        "never", "yes", "doesn't serve the model", "choose another model for {target}"
    ),
    "content_refused": Treatment("never", "once", "refused to answer", "rephrase the request"),
    "auth": Treatment("never", "yes", "rejected the API key", "check the API key of target {target}"),
    "entitlement": Treatment(
        "never",
        "yes",
        "doesn't offer this to the account",
        "check the plan of the account behind target {target}",
    ),
    "quota_exhausted": Treatment(
        "never",
        "yes",
        "has no quota left",
        "add credit to the account behind target {target}, or wait for its reset",
    ),
    "rate_limited": Treatment("server_time", "long_wait", "was rate limited", RESET),
    "overloaded": Treatment("backoff", "from_second", "was overloaded", LATER),
    "server_error": Treatment("backoff", "from_second", "had a server error", LATER),
    "connect_failed": Treatment(
        "while_unreachable",
        "elsewhere",
        "couldn't be reached",
        "check the network and the base_url of {target}",
        "neutral",
    ),
    "upload_stalled": Treatment(
        "backoff", "from_second", "didn't accept the request", "check the network, or send less", "counts"
    ),
    "no_first_event": Treatment(
        "at_once_first",
        "from_second",
        "didn't answer in time",
        "if it needs longer, raise {setting} of {target}",
        "counts",
    ),
    "stalled": Treatment(
        "backoff",
        "from_second",
        "stopped responding",
        "if it needs longer, raise {setting} of {target}",
        "counts",
    ),
    "dropped": Treatment("backoff", "from_second", "dropped the connection", LATER, "neutral"),
    "malformed": Treatment(
        "once", "yes", "sent an invalid response", "check the wire and base_url of {target}"
    ),
    "tls_untrusted": Treatment(
        "never",
        "other_host",
        "has an untrusted certificate",
        "check this machine's clock and certificates",
        "neutral",
    ),
    "overflow_input": Treatment("compacted", "larger_window", "can't fit the conversation", _SHORTEN),
    "overflow_output": Treatment("lower_cap", "never", "has no room left for the answer", _SHORTEN),
    "truncated": Treatment("new_turn", "never", "reached its length limit", "ask it to continue"),
    "empty": Treatment("twice", "yes", "returned an empty answer", "ask again, or choose another model"),
    "unknown": Treatment("once", "yes", "failed", LATER, "neutral"),
}


FINISHED_TEXT: dict[FailureKind, str] = {
    "content_refused": "refused to answer",
    "truncated": "stopped at its length limit",
    "empty": "returned an empty answer",
}


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything known about an attempt that did not succeed.

    `cancelled_by` comes from our own cancel scope and `bug` from our own code, never from the text of an
    exception. `finish` is the terminal marker, and `produced` says whether there was content or a tool call.
    `said` is any other explanation: the system's for a broken connection, the model's for a refusal.
    `at_proxy` means that the connection broke at the proxy. Header names are in lower case.
    """

    stage: Stage
    now_ms: int
    status: int = 0
    headers: Mapping[str, str] = {}
    error: ErrorReported | None = None
    broke: Break | None = None
    said: str = ""
    at_proxy: bool = False
    deadline: Deadline | None = None
    finish: FinishReason | None = None
    produced: bool = False
    cancelled_by: str = ""
    bug: str = ""
    over_window_tokens: int = 0
    hint: str = ""


class Classified(msgspec.Struct, frozen=True):
    """A failure, and what the next attempt can use: the server's wait, and the room left for an answer.

    `brief` says what happened, for a line that names the target itself and gives no advice.
    """

    failure: Failure
    wait_ms: int | None = None
    output_room_tokens: int | None = None
    brief: str = ""


class _Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The facts, prepared for the rules."""

    facts: Facts
    status: int
    codes: frozenset[str]
    text: str
    page: bool
    wait_ms: int | None
    room: int | None
    proxied: bool


NEEDS: dict[Need, Callable[[_Seen], bool]] = {
    "cancelled": lambda seen: bool(seen.facts.cancelled_by),
    "bug": lambda seen: bool(seen.facts.bug),
    "over_window": lambda seen: seen.facts.over_window_tokens > 0,
    "error": lambda seen: seen.facts.error is not None,
    "page": lambda seen: seen.page,
    "wait": lambda seen: seen.wait_ms is not None,
    "room": lambda seen: seen.room is not None and seen.room >= ROOM_TOKENS_MIN,
    "no_room": lambda seen: seen.room is not None and seen.room < ROOM_TOKENS_MIN,
    "no_content": lambda seen: not seen.facts.produced,
    "at_proxy": lambda seen: seen.facts.at_proxy,
    "proxied": lambda seen: seen.proxied,
}


def classify(facts: Facts, target: Target) -> Classified:
    """The class of a failed attempt, by the first rule that matches."""
    error = error_facts(facts.error)
    seen = _seen(facts, error, proxied=bool(target.proxy))
    rule = next(rule for rule in RULES if _holds(rule, seen))
    treatment = TREATMENTS[rule.kind]
    subject, brief = _happened(rule, seen, said=_clause(error.text, target), target=target)
    advice = (rule.advice or treatment.advice).format(target=target.name, setting=setting_of(facts.deadline))
    if target.auth and rule.kind == "auth":
        advice = f"run `holdfast auth login {target.auth}`"
    failure = Failure(
        kind=rule.kind,
        text=f"{subject}{brief}; {advice}" if advice else f"{subject}{brief}",
        rule=rule.name,
        status=seen.status,
        code=provider_text(facts.error.code or facts.error.kind, target) if facts.error else "",
        hint=facts.hint,
    )
    return Classified(failure, seen.wait_ms, seen.room, brief)


def again_of(failure: Failure) -> Again:
    """Whether and how to retry the same target; a rule's own setting wins over its class."""
    return AGAIN_OF_RULE.get(failure.rule) or TREATMENTS[failure.kind].again


AGAIN_OF_RULE: dict[str, Again] = {rule.name: rule.again for rule in RULES if rule.again}


def _seen(facts: Facts, error: ErrorFacts, *, proxied: bool) -> _Seen:
    header = facts.headers.get("x-amzn-errortype", "").partition(":")[0].strip().lower()
    codes = error.codes | {header} if header else error.codes
    status = _status(facts, error, codes=codes)
    text = error.text.lower()
    return _Seen(
        facts=facts,
        status=status,
        codes=codes,
        text=text,
        page=error.page,
        wait_ms=server_time(facts.headers, error, now_ms=facts.now_ms, status=status),
        room=output_room(text),
        proxied=proxied,
    )


def _status(facts: Facts, error: ErrorFacts, *, codes: frozenset[str]) -> int:
    """The response's status; for an error inside a successful response, the status it stands for."""
    for status in (facts.status, error.status):
        if status >= STATUS_MIN:
            return status
    return next((status for code, status in STATUS_OF_CODE.items() if code in codes), 0)


def _holds(rule: FailureRule, seen: _Seen) -> bool:
    facts = seen.facts
    deadline = facts.deadline.kind if facts.deadline else None
    return (
        (not rule.status or seen.status in rule.status)
        and (not rule.codes or not rule.codes.isdisjoint(seen.codes))
        and all(
            not allowed or value in allowed
            for allowed, value in (
                (rule.stages, facts.stage),
                (rule.broke, facts.broke),
                (rule.deadlines, deadline),
                (rule.finish, facts.finish),
            )
        )
        and all(
            not words or any(word in seen.text for word in words) for words in (rule.words, rule.and_words)
        )
        and all(NEEDS[need](seen) for need in rule.needs)
    )


def _happened(rule: FailureRule, seen: _Seen, *, said: str, target: Target) -> tuple[str, str]:
    """The subject, if it has to be named, and what happened."""
    facts, it, its = seen.facts, f"{target.name} ", f"{target.name}: "
    heard = _clause(facts.said, target)
    if facts.cancelled_by:
        return "", f"stopped: {facts.cancelled_by}"
    if facts.bug:
        return "", f"internal error: {provider_text(facts.bug, target)}"
    if facts.over_window_tokens:
        return "", f"the request is {facts.over_window_tokens} tokens over the window of {target.model}"
    if seen.status == PROXY_WANTS_LOGIN:
        return its, break_text("proxy_login", "connecting", place=proxy_place(target)) + " (407)"
    if facts.error or seen.status:
        waits = "" if TREATMENTS[rule.kind].again == "never" else _wait_asked(seen)
        return it, _answered(seen, said=said, target=target) + waits
    if rule.finish:
        return it, FINISHED_TEXT[rule.kind] + (f": {heard}" if heard else "")
    if facts.deadline:
        way = f" through {proxy_place(target)}" if seen.proxied and facts.deadline.kind == "connect" else ""
        return its, deadline_text(facts.deadline, facts.stage) + way
    if facts.broke:
        place = proxy_place(target) if facts.at_proxy else endpoint_place(target)
        return its, break_text(facts.broke, facts.stage, place=place) + (f" ({heard})" if heard else "")
    return its, "the attempt failed for an unknown reason"


def _answered(seen: _Seen, *, said: str, target: Target) -> str:
    # An error inside a successful response stands for a status that was never sent.
    status = seen.facts.status if seen.facts.status >= STATUS_MIN else 0
    words = f"answered {status}" if status else "reported an error"
    if seen.page:
        words = f"answered {status or ''} with a web page instead of an API response".replace("  ", " ")
    if status in REDIRECTS and (location := seen.facts.headers.get("location", "")):
        said = f"it has moved to {_clause(location, target)}"
    elif said in {"", f"HTTP {status}"}:
        said = "no reason given"
    # A proxy that can read the response may also have written it.
    way = f" through {proxy_place(target)}" if seen.proxied and target.base_url.startswith("http:") else ""
    return f"{words}{way}: {said}"


def _wait_asked(seen: _Seen) -> str:
    return f" (asks to wait {length_text(seen.wait_ms / 1000)})" if seen.wait_ms else ""


def _clause(text: str, target: Target) -> str:
    """Someone else's text without its final punctuation, so that ours can follow."""
    return provider_text(text, target).rstrip(" .;:")


def output_room(text: str) -> int | None:
    """The number of tokens that a text in lower case leaves for an answer; None if it doesn't say."""
    for pattern in WINDOWS:
        found = pattern.search(text)
        if found:
            used = int(found["used"]) + int(found.groupdict().get("more") or 0)
            return int(found["window"]) - used
    for pattern in CAPS:
        found = pattern.search(text)
        if found:
            return int(found["cap"])
    return None
