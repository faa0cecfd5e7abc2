"""Failures: the golden corpus, the table, and that nothing is ever raised."""

import tomllib
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decisions.failing import KEY, NOW_MS, TARGET, deadline, failed
from holdfast.decisions.deadlines import Deadline, DeadlineKind, Why
from holdfast.decisions.failure_rules import RULES, Break, Stage
from holdfast.decisions.failures import TREATMENTS, Classified, Facts, again_of, classify, output_room
from holdfast.model_events import ErrorReported, FinishReason
from holdfast.models.error_bodies import find_error, read_error
from holdfast.values import FailureKind

CORPUS = Path(__file__).parents[1] / "corpus" / "failures"


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An entry of the corpus; `seen` is where its shape is described."""

    name: str
    seen: str
    body: str
    kind: FailureKind
    rule: str
    status: int = 0
    stream: bool = False
    headers: dict[str, str] = {}
    wait_ms: int | None = None
    room: int | None = None


class CorpusFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    case: tuple[Case, ...]


def corpus() -> list[tuple[str, Case]]:
    files = sorted(CORPUS.glob("*.toml"))
    read = [(file.stem, msgspec.convert(tomllib.loads(file.read_text()), CorpusFile)) for file in files]
    return [(f"{stem}: {case.name}", case) for stem, held in read for case in held.case]


CASES = corpus()
each_case = pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])


def facts_of(case: Case, error: ErrorReported | None) -> Facts:
    stage: Stage = "streaming" if case.stream else "waiting"
    return Facts(stage=stage, now_ms=NOW_MS, status=case.status, headers=case.headers, error=error)


@each_case
def test_the_corpus_is_classified_as_written_down(case: Case) -> None:
    found = classify(facts_of(case, ErrorReported(message="", body=case.body)), TARGET)
    assert (found.failure.kind, found.failure.rule) == (case.kind, case.rule)
    assert found.wait_ms == case.wait_ms
    assert found.output_room_tokens == case.room
    assert KEY not in found.failure.text
    assert case.seen.startswith("https://")


@each_case
def test_the_corpus_is_classified_alike_through_what_the_wires_read(case: Case) -> None:
    raw = case.body.encode()
    within = find_error(raw) or ErrorReported(message="", body=case.body)
    error = within if case.stream else read_error(case.status, raw)
    found = classify(facts_of(case, error), TARGET)
    assert (found.failure.kind, found.failure.rule) == (case.kind, case.rule)


def test_the_corpus_is_large_and_names_no_case_twice() -> None:
    names = [name for name, _ in CASES]
    assert len(names) == len(set(names)) >= 80


PLAIN: list[tuple[dict[str, object], FailureKind, str]] = [
    ({"cancelled_by": "user_stop"}, "cancelled", "cancelled"),
    ({"cancelled_by": "user_stop", "broke": "reset", "status": 500}, "cancelled", "cancelled"),
    ({"bug": "KeyError: 'x'"}, "local_bug", "local_bug"),
    ({"over_window_tokens": 12}, "overflow_input", "own_count"),
    ({"broke": "tls_untrusted", "stage": "connecting"}, "tls_untrusted", "tls_untrusted"),
    ({"broke": "dns", "stage": "connecting"}, "connect_failed", "broke.no_way"),
    ({"broke": "refused", "stage": "connecting"}, "connect_failed", "broke.no_way"),
    ({"broke": "reset", "stage": "connecting"}, "connect_failed", "broke.connecting"),
    ({"broke": "tls_other", "stage": "connecting"}, "connect_failed", "broke.connecting"),
    ({"broke": "reset", "stage": "uploading"}, "dropped", "broke.dropped"),
    ({"broke": "eof", "stage": "waiting"}, "dropped", "broke.dropped"),
    ({"broke": "eof", "stage": "streaming", "produced": True}, "dropped", "broke.dropped"),
    ({"broke": "protocol", "stage": "streaming"}, "malformed", "broke.protocol"),
    ({"deadline": deadline("connect", 10)}, "connect_failed", "deadline.connect"),
    ({"deadline": deadline("upload", 20)}, "upload_stalled", "deadline.upload"),
    ({"deadline": deadline("first_event", 45)}, "no_first_event", "deadline.first_event"),
    ({"deadline": deadline("first_progress", 300)}, "stalled", "deadline.progress"),
    ({"deadline": deadline("gap", 120)}, "stalled", "deadline.progress"),
    ({"finish": "refused", "produced": True}, "content_refused", "finish.refused"),
    ({"finish": "length", "produced": True}, "truncated", "finish.length"),
    ({"finish": "length", "broke": "eof"}, "truncated", "finish.length"),
    ({"finish": "stop"}, "empty", "finish.empty"),
    ({"finish": "tools", "broke": "eof"}, "empty", "finish.empty"),
    ({"finish": "stop", "produced": True}, "unknown", "unknown"),
    ({}, "unknown", "unknown"),
    # An answer that was refused says so by its status, even if its body hangs.
    ({"status": 401, "deadline": deadline("gap", 120)}, "auth", "401"),
    ({"status": 500, "broke": "eof"}, "server_error", "5xx"),
    ({"error": ErrorReported(message="", status=200, body="<html>")}, "malformed", "page"),
    ({"broke": "unreachable", "stage": "connecting"}, "connect_failed", "broke.no_way"),
    ({"broke": "proxy_login", "stage": "connecting", "at_proxy": True}, "connect_failed", "proxy.login"),
    ({"broke": "proxy_denied", "stage": "connecting", "at_proxy": True}, "connect_failed", "proxy.denied"),
    ({"broke": "proxy_failed", "stage": "connecting", "at_proxy": True}, "connect_failed", "proxy.failed"),
    ({"broke": "refused", "stage": "connecting", "at_proxy": True}, "connect_failed", "proxy.no_way"),
    ({"broke": "protocol", "stage": "connecting", "at_proxy": True}, "connect_failed", "proxy.no_way"),
    ({"status": 425}, "server_error", "408"),
    ({"status": 498}, "overloaded", "498"),
    (
        {"status": 400, "error": ErrorReported(message="max_tokens is too large")},
        "overflow_output",
        "400.output_cap",
    ),
]


@pytest.mark.parametrize(("given", "kind", "rule"), PLAIN)
def test_facts_without_a_body_have_a_class(given: dict[str, object], kind: str, rule: str) -> None:
    found = failed(**given).failure
    assert (found.kind, found.rule) == (kind, rule)


def test_the_hint_of_a_silent_reject_travels_with_the_failure() -> None:
    assert (
        failed(deadline=deadline("first_event", 1), hint="try another model").failure.hint
        == "try another model"
    )


def test_the_code_and_the_status_are_kept() -> None:
    error = ErrorReported(
        message="no", code="insufficient_quota", status=429, body='{"error": {"message": "no"}}'
    )
    found = failed(error=error).failure
    assert (found.code, found.status, found.rule) == ("insufficient_quota", 429, "code.quota")
    assert (
        failed(error=ErrorReported(message="no", kind="overloaded_error")).failure.code == "overloaded_error"
    )


def test_every_class_has_a_treatment_and_a_rule_and_every_rule_a_name_of_its_own() -> None:
    kinds = set(get_args(FailureKind))
    assert set(TREATMENTS) == kinds == {rule.kind for rule in RULES}
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_every_rule_is_reached_by_a_case() -> None:
    proxied = {behind_proxy(**given).failure.rule for given, _ in PROXIED}
    reached = {case.rule for _, case in CASES} | {rule for _, _, rule in PLAIN} | proxied
    assert {rule.name for rule in RULES} == reached


def behind_proxy(**given: object) -> Classified:
    target = msgspec.structs.replace(TARGET, proxy="http://ann:secret-word@proxy.example:3128")
    return classify(msgspec.structs.replace(Facts(stage="connecting", now_ms=NOW_MS), **given), target)


PROXY = "the proxy proxy.example:3128"
WHERE = 'check proxy of main, or HTTPS_PROXY and NO_PROXY; proxy = "" uses none'
PROXIED: list[tuple[dict[str, object], str]] = [
    ({"broke": "refused", "at_proxy": True}, f"{PROXY} refused the connection; {WHERE}"),
    ({"broke": "dns", "at_proxy": True}, f"can't resolve {PROXY}; {WHERE}"),
    ({"broke": "eof", "at_proxy": True}, f"{PROXY} closed the connection; {WHERE}"),
    (
        {"broke": "proxy_login", "at_proxy": True, "said": "407 Who are you?"},
        (
            f"{PROXY} requires a user name and a password (407 Who are you?); set them in proxy of main or "
            "in HTTPS_PROXY, as http://USER:PASSWORD@HOST:PORT"
        ),
    ),
    (
        {"broke": "proxy_denied", "at_proxy": True, "said": "403 Forbidden for secret-word"},
        f"{PROXY} blocked the request (403 Forbidden for [key]); {WHERE}",
    ),
    (
        {"broke": "proxy_failed", "at_proxy": True, "said": "502 Bad Gateway"},
        f"{PROXY} couldn't reach the endpoint (502 Bad Gateway); {WHERE}",
    ),
    (
        {"broke": "tls_untrusted", "said": "self-signed certificate in certificate chain"},
        (
            f"the certificate of api.example.com (through {PROXY}) isn't trusted (self-signed certificate "
            "in certificate chain); if the proxy inspects traffic, make this computer trust its "
            "certificate (SSL_CERT_FILE can name it)"
        ),
    ),
    (
        {"deadline": deadline("connect", 10)},
        f"no connection in 10 s through {PROXY}; check the network and the base_url of main",
    ),
    (
        {"broke": "eof", "stage": "waiting"},
        (
            f"api.example.com (through {PROXY}) closed the connection before sending a response; "
            "try again in a few minutes"
        ),
    ),
]


@pytest.mark.parametrize(("given", "text"), PROXIED)
def test_a_failure_says_what_part_the_proxy_had_in_it(given: dict[str, object], text: str) -> None:
    """P9."""
    assert behind_proxy(**given).failure.text == f"main: {text}"


def test_a_proxy_that_reads_answers_is_named_with_each_of_them() -> None:
    """P9: with http, a proxy's own refusals look like the endpoint's."""
    plain = msgspec.structs.replace(TARGET, base_url="http://models.example/v1", proxy="http://p.example:1")
    facts = Facts(stage="waiting", now_ms=NOW_MS)
    said = classify(msgspec.structs.replace(facts, status=502), plain).failure
    assert said.kind == "server_error"
    assert said.text.startswith("main answered 502 through the proxy p.example:1: no reason given;")
    asked = classify(msgspec.structs.replace(facts, status=407), plain).failure
    assert asked.text.startswith("main: the proxy p.example:1 requires a user name and a password (407); set")
    unnamed = failed(status=407).failure
    assert unnamed.text.startswith("main: a proxy on the way requires a user name and a password (407); set")


@pytest.mark.parametrize(("broke", "again"), [("proxy_login", "never"), ("proxy_denied", "never")])
def test_what_a_proxy_refuses_is_not_asked_again_of_the_same_target(broke: str, again: str) -> None:
    assert again_of(behind_proxy(broke=broke, at_proxy=True).failure) == again


TABLE: dict[str, tuple[str, str]] = {
    "cancelled": ("never", "never"),
    "local_bug": ("never", "never"),
    "bad_request": ("never", "yes"),
    "payload_too_large": ("never", "yes"),
    "model_missing": ("never", "yes"),
    "content_refused": ("never", "once"),
    "auth": ("never", "yes"),
    "entitlement": ("never", "yes"),
    "quota_exhausted": ("never", "yes"),
    "rate_limited": ("server_time", "long_wait"),
    "overloaded": ("backoff", "from_second"),
    "server_error": ("backoff", "from_second"),
    "connect_failed": ("while_unreachable", "elsewhere"),
    "upload_stalled": ("backoff", "from_second"),
    "no_first_event": ("at_once_first", "from_second"),
    "stalled": ("backoff", "from_second"),
    "dropped": ("backoff", "from_second"),
    "malformed": ("once", "yes"),
    "tls_untrusted": ("never", "other_host"),
    "overflow_input": ("compacted", "larger_window"),
    "overflow_output": ("lower_cap", "never"),
    "truncated": ("new_turn", "never"),
    "empty": ("twice", "yes"),
    "unknown": ("once", "yes"),
}


def test_the_table_is_the_one_of_the_specification() -> None:
    assert {kind: (row.again, row.fallback) for kind, row in TREATMENTS.items()} == TABLE
    counting = {kind for kind, row in TREATMENTS.items() if row.silence == "counts"}
    assert counting == {"upload_stalled", "no_first_event", "stalled"}


def test_some_statuses_of_a_class_are_tried_once_only() -> None:
    assert again_of(failed(status=409).failure) == "once"
    assert again_of(failed(status=500).failure) == "backoff"


@pytest.mark.parametrize("status", [0, 200, 400, 401, 429, 500])
def test_a_reset_is_never_read_as_context_overflow(status: int) -> None:
    text = "maximum context length is 10 tokens. However, you requested 99 tokens (99 in the messages)"
    found = failed(stage="streaming", broke="reset")
    assert found.failure.kind == "dropped"
    told = failed(stage="streaming", status=status, error=ErrorReported(message=text, body=text)).failure.kind
    assert (told == "overflow_input") == (status in {400, 500})


def test_the_room_of_an_openai_cap_and_an_anthropic_cap_is_read() -> None:
    assert (
        output_room("max_tokens is too large: 9. this model supports at most 16384 completion tokens")
        == 16384
    )
    assert (
        output_room("max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens") == 4096
    )
    assert output_room("nothing of that kind") is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "message", "code", "type", "status", "retry_after", "resets_at", "quotaId"]
            )
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
ERRORS = st.builds(
    ErrorReported,
    message=st.text(max_size=60),
    code=st.text(max_size=20),
    kind=st.sampled_from(["", "server_error", "invalid_request_error"]) | st.text(max_size=10),
    status=st.integers(-1, 700),
    body=st.text(max_size=80)
    | JSON.map(lambda value: msgspec.json.encode(value).decode())
    | st.sampled_from(["<html>", "["]),
)
HEADERS = st.dictionaries(
    st.sampled_from(
        [
            "retry-after",
            "retry-after-ms",
            "x-ratelimit-reset-tokens",
            "anthropic-ratelimit-x-reset",
            "x-amzn-errortype",
        ]
    ),
    st.text(max_size=20) | st.integers().map(str) | st.floats().map(str),
    max_size=4,
)
DEADLINES = st.builds(
    Deadline,
    at_s=st.floats(allow_nan=False),
    kind=st.sampled_from(get_args(DeadlineKind)),
    patience_s=st.floats(0, 1e9),
    why=st.sampled_from(get_args(Why)),
    says=st.just(""),
)
FACTS = st.builds(
    Facts,
    stage=st.sampled_from(get_args(Stage)),
    now_ms=st.integers(0, 2**45),
    status=st.integers(-1, 1000),
    headers=HEADERS,
    error=st.none() | ERRORS,
    broke=st.none() | st.sampled_from(get_args(Break)),
    deadline=st.none() | DEADLINES,
    finish=st.none() | st.sampled_from(get_args(FinishReason)),
    produced=st.booleans(),
    cancelled_by=st.sampled_from(["", "user_stop"]),
    bug=st.sampled_from(["", "ValueError"]),
    over_window_tokens=st.integers(-5, 5),
)


@settings(max_examples=300)
@given(FACTS)
def test_any_facts_have_a_class_and_nothing_is_raised(facts: Facts) -> None:
    found = classify(facts, TARGET)
    assert found.failure.kind in get_args(FailureKind)
    assert found.failure.text
    assert found.wait_ms is None or 0 < found.wait_ms <= 30 * 86_400_000
    if facts.cancelled_by:
        assert found.failure.kind == "cancelled"
