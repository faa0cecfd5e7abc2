"""The words for a failure: what happened, what to do, and never our key."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decisions.failing import KEY, NOW_MS, TARGET, deadline, failed
from holdfast.decisions.failure_texts import PROVIDER_CHARS_MAX, provider_text
from holdfast.decisions.failures import Facts, classify
from holdfast.model_events import ErrorReported


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"deadline": deadline("first_event", 1)},
            "no first byte in 1 s (TTFB threshold: 1s); if it needs longer, raise first_event_s",
        ),
        (
            {"deadline": deadline("first_event", 1, "cap")},
            "capped by the operator at 1 s; if it needs longer, raise first_event_cap_s of main",
        ),
        (
            {"deadline": deadline("first_event", 45, "default")},
            "no first byte in 45 s (TTFB threshold: 45s);",
        ),
        (
            {"deadline": deadline("gap", 60), "stage": "streaming"},
            "after first byte; if it needs longer, raise gap_s",
        ),
        (
            {"deadline": deadline("first_progress", 1, "gap"), "stage": "streaming"},
            "no events for 1 s after first byte, bounded by gap_s; if it needs longer, raise gap_s of main",
        ),
        (
            {"deadline": deadline("first_progress", 1), "stage": "streaming"},
            "no events for 1 s after first byte; if it needs longer, raise first_progress_s of main",
        ),
        (
            {"deadline": deadline("first_progress", 300, "ttfb_off")},
            "no first byte in 300 s, the first-event watchdog",
        ),
        ({"deadline": deadline("connect", 0.5)}, "no connection in 0.5 s"),
        (
            {"broke": "eof", "stage": "streaming"},
            "api.example.com closed the connection in the middle of the answer",
        ),
        (
            {"broke": "dns", "stage": "connecting"},
            "main: can't resolve api.example.com; check",
        ),
        ({"status": 401}, "main answered 401: no reason given; check the API key of target main"),
        (
            {"status": 401, "error": ErrorReported(message="Wrong key.", body="")},
            "main answered 401: Wrong key; check the API key of target main",
        ),
        (
            {"status": 429, "headers": {"retry-after": "125"}},
            "main answered 429: no reason given (asks to wait 2 min 5 s); wait until",
        ),
        (
            {"status": 429, "headers": {"retry-after": "9000"}},
            "main answered 429: no reason given (asks to wait 2 h 30 min); wait until",
        ),
        (
            {"status": 308, "headers": {"location": "https://new.example/v1"}},
            "main answered 308: it has moved to https://new.example/v1; check base_url",
        ),
        (
            {"broke": "unreachable", "stage": "connecting", "said": "No route to host"},
            "main: api.example.com can't be reached (No route to host); check the network",
        ),
        (
            {"broke": "protocol", "stage": "streaming", "said": f"no JSON: {KEY}"},
            "an invalid response in the middle of the answer (no JSON: [key]); check the wire",
        ),
        ({"finish": "refused", "said": "Too dangerous."}, "main refused to answer: Too dangerous; rephrase"),
        (
            {"error": ErrorReported(message="Busy.", kind="overloaded_error", body="")},
            "main reported an error: Busy; try again",
        ),
        (
            {"error": ErrorReported(message="Sign in", status=200, body="<html>")},
            "main answered with a web page instead of an API response: Sign in; check the wire",
        ),
        ({"cancelled_by": "user_stop"}, "stopped: user_stop"),
        ({"bug": "KeyError: 'x'"}, "internal error: KeyError: 'x'; this is a bug in Holdfast"),
        ({"over_window_tokens": 12}, "12 tokens over the window of some-model"),
        ({"finish": "refused"}, "main refused to answer"),
        ({"finish": "stop"}, "returned an empty answer"),
        ({}, "for an unknown reason"),
        ({"error": ErrorReported(message="odd", body="odd")}, "main reported an error: odd"),
        (
            {"status": 502, "error": ErrorReported(message="", body="<html><p>no</p>")},
            "a web page instead of an API",
        ),
    ],
)
def test_a_failure_says_what_happened_and_what_to_do(given: dict[str, object], words: str) -> None:
    assert words in failed(**given).failure.text


@pytest.mark.parametrize(
    ("given", "brief"),
    [
        ({"status": 500}, "answered 500: no reason given"),
        ({"deadline": deadline("first_event", 1)}, "no first byte in 1 s (TTFB threshold: 1s)"),
        ({"finish": "stop"}, "returned an empty answer"),
        ({"broke": "refused", "stage": "connecting"}, "api.example.com refused the connection"),
    ],
)
def test_what_is_brief_names_no_target_and_gives_no_advice(given: dict[str, object], brief: str) -> None:
    assert failed(**given).brief == brief


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"bad key {KEY}!", "bad key [key]!"),
        ("Incorrect API key provided: sk-corpu*********cdef.", "Incorrect API key provided: [key]"),
        (f"header 'Bearer {KEY}'", "header 'Bearer [key]'"),
        ("key ends in *****abcdef", "key ends in [key]"),
        ("key is proj-***9abcdef", "key is [key]"),
        ("tunnel-secret-value was refused", "[key] was refused"),
        (
            "plain words stay, and so does a word like some-model",
            "plain words stay, and so does a word like some-model",
        ),
        ("two\nlines\x00and\ttabs", "two lines and tabs"),
    ],
)
def test_a_provider_s_words_are_shown_without_our_key(said: str, shown: str) -> None:
    target = msgspec.structs.replace(
        TARGET, headers={"X-Proxy-Token": "tunnel-secret-value", "x-team": "plain words"}
    )
    assert provider_text(said, target) == shown


def test_a_dummy_key_hides_only_itself() -> None:
    target = msgspec.structs.replace(TARGET, api_key="ollama")
    assert provider_text("ollama says: ollama-like", target) == "[key] says: ollama-like"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("fake upstream 400: Upstream secrets", "fake upstream 400: Upstream secrets"),
        ("UPSTREAM. upstream-sec***", "UPSTREAM. [key]"),
        ("upstream-secret-1 upsTreaM", "[key] upsTreaM"),
        ("secretword", "[key]"),
    ],
)
def test_the_words_that_a_key_is_made_of_stay_readable(said: str, shown: str) -> None:
    target = msgspec.structs.replace(
        TARGET, api_key="upstream-secret-1", headers={"X-Proxy-Token": "secretword"}
    )
    assert provider_text(said, target) == shown


def test_long_words_are_cut_after_the_key_is_gone() -> None:
    shown = provider_text("x " * 150 + KEY + " " + "y " * 400, TARGET)
    assert len(shown) <= PROVIDER_CHARS_MAX
    assert "sk-cor" not in shown
    assert shown.endswith("…")


@settings(max_examples=100)
@given(st.text(max_size=300), st.text(max_size=300))
def test_our_key_is_never_in_a_failure(before: str, after: str) -> None:
    found = failed(
        status=400, error=ErrorReported(message=f"{before}{KEY}{after}", code=KEY, body=f"{before} {KEY}")
    )
    assert KEY not in found.failure.text + found.failure.code


def test_a_rejected_sign_in_names_the_command_that_renews_it() -> None:
    facts = Facts(stage="waiting", now_ms=NOW_MS, status=401)
    found = classify(facts, msgspec.structs.replace(TARGET, auth="codex"))
    assert found.failure.text.endswith("run `holdfast auth login codex`")
