"""What the guard understands of an answer, and that it lets live what it does not understand."""

import gzip
import zlib
from collections.abc import Callable

import httpx2
import pytest

from holdfast.decisions.deadlines import Sign
from holdfast.guard.listening import BytesListener, EventsListener, Listener, listener_for, wire_of
from holdfast.targets import Wire

DATA = "data: {}\n\n"


def _heard(wire: Wire | None, *data: str) -> list[Sign]:
    listener = EventsListener(wire)
    return [sign for each in data for sign in listener.feed(f"data: {each}\n\n".encode())]


def _listener(path: str, headers: dict[str, str], *, status: int = 200) -> Listener:
    request = httpx2.Request("POST", f"https://example.org{path}")
    return listener_for(request, httpx2.Response(status, headers=headers))


def test_an_event_that_holdfast_itself_does_not_use_has_a_meaning() -> None:
    meanings: list[tuple[Wire | None, str, Sign]] = [
        ("responses", '{"type":"response.created"}', Sign.ALIVE),
        ("responses", '{"type":"keepalive"}', Sign.ALIVE),
        ("responses", '{"type":"response.output_text.delta","delta":""}', Sign.ALIVE),
        ("responses", '{"type":"response.web_search_call.searching"}', Sign.OPENING),
        ("responses", '{"type":"response.web_search_call.completed"}', Sign.PROGRESS),
        ("responses", '{"type":"response.code_interpreter_call_code.delta","delta":"x"}', Sign.PROGRESS),
        ("responses", '{"type":"response.image_generation_call.partial_image"}', Sign.PROGRESS),
        ("chat", '{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}', Sign.ALIVE),
        ("chat", '{"choices":[{"index":1,"delta":{"content":"b"}}]}', Sign.PROGRESS),
        ("chat", '{"choices":[{"index":0,"delta":{"audio":{"data":"AA"}}}]}', Sign.PROGRESS),
        ("chat", '{"choices":[{"index":0,"delta":null}]}', Sign.ALIVE),
        ("anthropic", '{"type":"ping"}', Sign.ALIVE),
        ("anthropic", '{"type":"message_start","message":{}}', Sign.ALIVE),
        (
            "anthropic",
            '{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use"}}',
            Sign.OPENING,
        ),
        ("anthropic", '{"type":"content_block_stop","index":0}', Sign.PROGRESS),
        ("anthropic", '{"type":"content_block_delta","index":9,"delta":{"type":"text_delta"}}', Sign.OPENING),
        (None, '{"anything":1}', Sign.PROGRESS),
    ]
    for wire, event, sign in meanings:
        assert _heard(wire, event) == [sign], (wire, event)


def test_comments_mean_nothing_on_any_wire() -> None:
    for wire in ("responses", "chat", "anthropic", None):
        assert EventsListener(wire).feed(b": keep-alive\n\n") == []


def test_a_ping_is_known_on_an_unknown_wire() -> None:
    assert EventsListener(None).feed(b"event: ping\ndata: {}\n\n") == [Sign.ALIVE]


def test_after_a_frame_that_is_not_the_protocol_data_is_progress_and_no_marker_is_expected() -> None:
    listener = EventsListener("chat")
    assert listener.expects_marker
    assert listener.feed(b"data: {not json\n\n: still here\n\n") == [Sign.PROGRESS]
    assert listener.feed(DATA.encode()) == [Sign.PROGRESS]
    assert listener.feed(b": still here\n\n") == []
    assert not listener.expects_marker
    assert listener.end() == []


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "deflate"])
def test_a_compressed_stream_is_read_along(pack: Callable[[bytes], bytes]) -> None:
    packed = pack(b'data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')
    listener = EventsListener("chat", compressed=True)
    signs = [sign for start in range(len(packed)) for sign in listener.feed(packed[start : start + 1])]
    assert Sign.PROGRESS in signs
    assert signs[-1] is Sign.MARKER
    assert listener.complete


def test_a_stream_that_is_not_what_it_says_is_let_live() -> None:
    listener = EventsListener("chat", compressed=True)
    assert listener.feed(b"plain text") == [Sign.PROGRESS]
    assert listener.feed(b"more") == [Sign.PROGRESS]
    assert not listener.expects_marker
    assert listener.end() == []


def test_a_last_frame_without_its_blank_line_counts() -> None:
    listener = EventsListener("anthropic")
    listener.feed(b'data: {"type":"message_stop"}\n')
    listener.end()
    assert listener.complete


def test_an_error_in_the_stream_is_an_end_too() -> None:
    listener = EventsListener("responses")
    assert listener.feed(b'data: {"type":"error","message":"no"}\n\n') == [Sign.MARKER]
    assert not listener.expects_marker


def test_white_space_keeps_an_answer_in_one_body_alive_and_is_no_progress() -> None:
    listener = BytesListener()
    assert listener.feed(b"\n  \n") == []
    assert listener.feed(b" {") == [Sign.PROGRESS]
    assert listener.end() == []


def test_the_wire_is_known_by_the_path() -> None:
    for method, path, wire in (
        ("POST", "/v1/responses", "responses"),
        ("POST", "/openai/deployments/x/chat/completions?api-version=1", "chat"),
        ("POST", "/v1/messages/", "anthropic"),
        ("POST", "/v1/messages/count_tokens", None),
        ("POST", "/v1/completions", None),
        ("GET", "/v1/responses", None),
    ):
        assert wire_of(httpx2.Request(method, f"https://example.org{path}")) == wire, (method, path)


def test_the_head_of_an_answer_decides_who_listens() -> None:
    stream = {"content-type": "text/event-stream; charset=utf-8"}
    assert _listener("/v1/responses", stream).expects_marker
    assert _listener("/v1/responses", {}).expects_marker
    assert _listener("/v1/responses", {**stream, "content-encoding": "gzip"}).expects_marker
    assert not _listener("/v1/responses", {**stream, "content-encoding": "br"}).expects_marker
    assert not _listener("/v1/responses", stream, status=500).expects_marker
    assert not _listener("/v1/elsewhere", stream).expects_marker
    assert not _listener("/v1/responses", {"content-type": "application/json"}).expects_marker
