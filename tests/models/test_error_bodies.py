"""Error bodies of many shapes; the corpus of failures is read here too, so that no shape is unreadable."""

import json
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.models.error_bodies import BODY_CHARS_MAX, find_error, read_error
from tables import for_each_row

CORPUS = Path(__file__).parent.parent / "corpus" / "failures"


@for_each_row(
    ("body", "expected"),
    [
        (
            {
                "error": {
                    "message": "No key.",
                    "type": "invalid_request_error",
                    "param": None,
                    "code": "invalid_api_key",
                }
            },
            ("No key.", "invalid_api_key", "invalid_request_error"),
        ),
        (
            {"type": "error", "error": {"type": "rate_limit_error", "message": "slow"}, "request_id": "req"},
            ("slow", "", "rate_limit_error"),
        ),
        ({"error": "model 'x' not found"}, ("model 'x' not found", "", "")),
        ({"error": "bad", "code": "E1", "type": "t"}, ("bad", "E1", "t")),
        (
            {"detail": "Unsupported parameter: max_output_tokens"},
            ("Unsupported parameter: max_output_tokens", "", ""),
        ),
        (
            {"detail": [{"type": "missing", "loc": ["body", "model"], "msg": "Field required"}]},
            ("Field required", "", "missing"),
        ),
        ({"detail": {"message": "deep", "code": 7}}, ("deep", "7", "")),
        (
            [{"error": {"code": 429, "message": "quota", "status": "RESOURCE_EXHAUSTED"}}],
            ("quota", "429", ""),
        ),
        (
            {"object": "error", "message": "too long", "type": "BadRequestError", "param": None, "code": 400},
            ("too long", "400", "BadRequestError"),
        ),
        ({"errors": [{"code": 7003, "message": "no route"}]}, ("no route", "7003", "")),
        (
            {"error": {"message": "Provider returned error", "code": 429, "metadata": {"raw": "slow down"}}},
            ("Provider returned error: slow down", "429", ""),
        ),
        ("just a string", ("just a string", "", "")),
    ],
)
def test_the_shapes_of_an_error_in_json(body: object, expected: tuple[str, str, str]) -> None:
    text = json.dumps(body)
    error = read_error(429, text.encode())
    assert (error.message, error.code, error.kind) == expected
    assert (error.status, error.body) == (429, text)


@for_each_row(
    ("body", "message"),
    [
        (b"<html><head><title>502 Bad\n Gateway</title></head></html>", "502 Bad Gateway"),
        (b"<!DOCTYPE html><h1 class=x>Oh &amp; no</h1>", "Oh & no"),
        (b"<html></html>", "an HTML page"),
        (b"<html><title></title><h1>\nGone <b>away</b></h1>", "Gone"),
        (b"upstream connect error", "upstream connect error"),
        (b"", "HTTP 502"),
        (b"\xff\xfe", "��"),
        (b"{}", "{}"),
        (b'{"error":{}}', '{"error":{}}'),
    ],
)
def test_a_body_that_is_not_an_error_in_json(body: bytes, message: str) -> None:
    error = read_error(502, body)
    assert (error.message, error.status) == (message, 502)


@for_each_row(
    ("body", "status"),
    [
        ({"type": "error", "status": 429, "error": {"message": "x"}}, 429),
        ({"type": "error", "status_code": 503, "error": {"message": "x"}}, 503),
        ({"error": {"message": "x", "code": 502}}, 502),
        ({"error": {"message": "x", "code": "400"}}, 400),
        ({"error": {"message": "x", "code": "E400", "status": "FAILED"}}, 0),
    ],
)
def test_the_status_that_an_error_inside_a_stream_names(body: object, status: int) -> None:
    error = find_error(json.dumps(body).encode())
    assert error is not None
    assert error.status == status


@for_each_row("body", [b'{"type":"ping"}', b'{"choices":[]}', b"[]", b"{}", b'{"error":null}', b"no"])
def test_what_reports_no_error(body: bytes) -> None:
    assert find_error(body) is None


@for_each_row("body", [b"<h1>" * 16_000, b"<h1" * 21_000, b"<h1>x" * 12_000, b"<h1 " + b"x" * 65_000])
def test_a_page_that_opens_and_never_closes_is_read_in_time(body: bytes) -> None:
    """P10: all other calls would wait."""
    expected = "x" if b">x" in body else "an HTML page"
    # So often that quadratic work would not end before the time of the test is over.
    assert {read_error(502, body).message for _ in range(50)} == {expected}


def test_a_long_body_is_kept_in_part() -> None:
    error = read_error(500, b"x" * (10 * BODY_CHARS_MAX))
    assert len(error.body) == BODY_CHARS_MAX
    assert len(error.message) <= 2000


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.toml")), ids=lambda path: path.stem)
def test_every_failure_of_the_corpus_is_read(path: Path) -> None:
    for case in tomllib.loads(path.read_text())["case"]:
        body = str(case.get("body", "")).encode()
        error = read_error(int(case.get("status", 0)), body)
        assert error.message, case["name"]
        assert error.body == body.decode()


@settings(max_examples=100)
@given(st.binary(max_size=80))
def test_any_body_is_read(body: bytes) -> None:
    assert read_error(500, body).message
