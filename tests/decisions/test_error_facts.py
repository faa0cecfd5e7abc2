"""Error bodies: what is found in them, and what is left alone."""

import msgspec
import pytest

from holdfast.decisions.error_facts import NO_ERROR, TEXT_CHARS_MAX, ErrorFacts, error_facts
from holdfast.model_events import ErrorReported


def read(body: object) -> ErrorFacts:
    text = body if isinstance(body, str) else msgspec.json.encode(body).decode()
    return error_facts(ErrorReported(message="", body=text))


def test_no_error_has_no_facts() -> None:
    assert error_facts(None) == NO_ERROR


def test_what_the_wire_read_completes_what_the_body_says() -> None:
    error = ErrorReported(
        message="no", code="Slow_Down", kind="Some_Error", status=503, body='{"error": "no"}'
    )
    found = error_facts(error)
    assert (found.text, found.codes, found.status) == ("no", {"slow_down", "some_error"}, 503)


def test_an_outer_message_comes_before_what_it_passes_on() -> None:
    body = {
        "error": {"metadata": {"raw": '{"error": {"message": "inner", "code": "x_y"}}'}, "message": "outer"}
    }
    found = read(body)
    assert found.text == "outer; inner"
    assert found.codes == {"x_y"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"error": {"code": 502}}, 502),
        ({"error": {"code": "429"}}, 429),
        ({"status_code": 503, "code": 429}, 503),
        ({"code": 1300}, 0),
        ({"code": "\uff14\uff12\uff19"}, 0),
        ({"code": 200}, 0),
        ({"code": True}, 0),
        ({"code": None}, 0),
    ],
)
def test_a_status_inside_a_body_is_an_error_s(body: object, status: int) -> None:
    assert read(body).status == status


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<html><head><TITLE>502\n Bad Gateway</TITLE>", "502 Bad Gateway"),
        ("<html><p>no title</p>", ""),
        ("plain words", "plain words"),
        ("", ""),
        ("{broken", "{broken"),
        ("[1, [2, [3]]]", ""),
        ("[" * 5000, "[" * TEXT_CHARS_MAX),
        ("null", "null"),
    ],
)
def test_a_body_that_is_no_error_object_is_read_as_words(body: str, text: str) -> None:
    assert read(body).text == text


def test_what_is_said_twice_is_shown_once() -> None:
    body = '{"error": {"message": "Provider returned error", "metadata": {"raw": "it is busy"}}}'
    told = ErrorReported(message="Provider returned error: it is busy", body=body)
    assert error_facts(told).text == "Provider returned error; it is busy"
    whole = ErrorReported(message='{"response": {"error": {"message": "No."}}}', body="")
    assert error_facts(msgspec.structs.replace(whole, body=whole.message)).text == "No."


def test_a_page_is_known_as_a_page() -> None:
    assert read("<html>").page
    assert not read("{}").page


def test_a_body_is_read_to_a_stated_depth_and_breadth() -> None:
    deep: object = {"code": "too_deep"}
    for _ in range(20):
        deep = {"error": deep}
    assert read(deep).codes == frozenset()
    wide: list[object] = [{"error": [0]} for _ in range(2_000)]
    assert read([*wide, {"code": "too_far"}]).codes == frozenset()
