"""Every event survives the store; what cannot be read says which record it is and why."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import events as e
from holdfast.codec import (
    TYPES,
    UPCASTS,
    EncodedEvents,
    UnreadableEvent,
    bodies_of,
    decode,
    encodable,
    encode,
    encode_value,
    native_frame,
    numbered,
    type_of,
)
from holdfast.features.automations.events import HookDelivered
from holdfast.folds.rows import blobs_of
from holdfast.values import HistoryMessage
from strategies.any_event import any_events, events_of

BOUNDED = settings(max_examples=25)


@pytest.mark.parametrize("tag", sorted(TYPES))
def test_every_event_type_comes_back_as_it_was(tag: str) -> None:
    @BOUNDED
    @given(events_of(TYPES[tag]))
    def comes_back(event: e.Event) -> None:
        body = encode(event)
        assert decode(body) == event
        assert body.startswith(b'{"type":"%b"' % tag.encode())
        assert encode(decode(body)) == body
        assert type_of(event) == tag

    comes_back()


@BOUNDED
@given(any_events(), st.integers(1, 2**53))
def test_a_native_frame_is_one_line_of_json_with_its_seq(event: e.Event, seq: int) -> None:
    frame = native_frame(seq, encode(event))
    id_line, data_line = frame.removesuffix(b"\n\n").split(b"\n")
    assert id_line == b"id: %d" % seq
    record: dict[str, Any] = msgspec.json.decode(data_line.removeprefix(b"data: "))
    assert record["seq"] == seq
    assert record == {"seq": seq, **msgspec.json.decode(encode(event))}


def test_defaults_take_no_room() -> None:
    assert encode(e.StopRequested(at_ms=1, run_id="r")) == b'{"type":"stop.requested","at_ms":1,"run_id":"r"}'


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"type":"text.spoken","at_ms":1}', "unknown event type 'text.spoken'"),
        (b'{"type":"text.spoken/2","at_ms":1}', "unknown event type 'text.spoken/2'"),
        (
            b'{"type":"usage/2","at_ms":1}',
            "this Holdfast can't read version 2 of usage; a newer one may",
        ),
        (
            b'{"type":"text.delta","at_ms":1,"run_id":"r","segment":"x","text":""}',
            "text.delta has a wrong shape",
        ),
        (b'{"type":"text.delta","at_ms":1}', "text.delta has a wrong shape"),
        (
            b'{"type":"text.delta","at_ms":1,"run_id":"\xff","segment":0,"text":""}',
            "text.delta has a wrong shape",
        ),
        (b'{"type":"text.\xff","at_ms":1}', "not an event"),
        (b'{"type":"tool.asked","args":{"a":' + b"[" * 9_000, "not an event"),
        (b'{"at_ms":1}', "not an event"),
        (b'{"type":7}', "not an event"),
        (b"[]", "not an event"),
        (b'{"type":"text.delta","at_m', "not an event"),
        (b"", "not an event"),
        (b"\xff\xfe\x00", "not an event"),
    ],
)
def test_an_unreadable_record_is_named_with_its_reason(body: bytes, reason: str) -> None:
    with pytest.raises(UnreadableEvent) as caught:
        decode(body, where="session s1 seq 7")
    assert str(caught.value).startswith(f"session s1 seq 7: {reason}")
    assert caught.value.where == "session s1 seq 7"
    assert caught.value.reason.startswith(reason)


def test_a_long_unreadable_record_is_shown_in_part() -> None:
    with pytest.raises(UnreadableEvent) as caught:
        decode(b'"' + b"x" * 5_000)
    assert len(str(caught.value)) < 400


@BOUNDED
@given(st.binary(max_size=60))
def test_bytes_that_are_no_event_raise_nothing_else(body: bytes) -> None:
    with pytest.raises(UnreadableEvent):
        decode(body)


@BOUNDED
@given(any_events(), st.data())
def test_a_record_cut_anywhere_is_unreadable(event: e.Event, data: st.DataObject) -> None:
    body = encode(event)
    with pytest.raises(UnreadableEvent):
        decode(body[: data.draw(st.integers(0, len(body) - 1))])


def _with_text(record: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "text.delta/1",
        "text": record.pop("delta"),
        **{k: v for k, v in record.items() if k != "type"},
    }


def _with_segment(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "type": "text.delta", "segment": record.get("segment", 0)}


OLDER = {"text.delta/0": _with_text, "text.delta/1": _with_segment}


def test_an_old_version_goes_through_every_version_after_it() -> None:
    current = e.TextDelta(at_ms=1, run_id="r", segment=0, text="hi")
    first = b'{"type":"text.delta/0","at_ms":1,"run_id":"r","delta":"hi"}'
    second = b'{"type":"text.delta/1","at_ms":1,"run_id":"r","text":"hi"}'
    assert decode(first, upcasts=OLDER) == current
    assert decode(second, upcasts=OLDER) == current
    assert decode(encode(current), upcasts=OLDER) == current


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"text.delta/1","at_ms":1,"text":"hi"}',
        b'{"type":"text.delta/0","at_ms":1,"run_id":"r"}',
        b'{"type":"text.delta/0","at_ms":1,"run_id":"r","delta":"\xff"}',
    ],
)
def test_an_old_version_that_does_not_fit_is_named(body: bytes) -> None:
    with pytest.raises(
        UnreadableEvent, match=r"seq 3: text.delta/\d could not be brought to the current version"
    ):
        decode(body, where="seq 3", upcasts=OLDER)


def test_each_upcast_leads_to_a_known_type_or_a_further_upcast() -> None:
    known = {tag.partition("/")[0] for tag in TYPES}
    assert all(tag.partition("/")[0] in known and tag not in TYPES for tag in UPCASTS)


def test_every_event_says_who_may_append_it() -> None:
    assert all(issubclass(kind, e.Input | e.OwnedEvent) for kind in TYPES.values())


def test_a_value_stands_in_the_body_of_its_event_as_it_is_encoded_alone() -> None:
    history = (HistoryMessage(role="user", content='a "b" ü'), HistoryMessage(role="assistant", content=""))
    body = encode(e.RunQueued(at_ms=1, run_id="r", message_id="m", history=history))
    assert body.endswith(b",".join(encode_value(message) for message in history) + b"]}")


def test_a_lone_surrogate_is_escaped_wherever_it_stands() -> None:
    asked = e.ToolAsked(
        at_ms=1,
        run_id="r",
        tool_call_id="t",
        name="read_file",
        args={"path": "a\udcff", "also": ["b\udc80", 3], "k\udcff": None},
    )
    stored, body = encodable(asked)
    assert isinstance(stored, e.ToolAsked)
    assert stored.args == {"path": "a\\udcff", "also": ["b\\udc80", 3], "k\\udcff": None}
    assert decode(body) == stored


def test_an_event_that_can_be_stored_is_left_as_it_is() -> None:
    said = e.TextDelta(at_ms=1, run_id="r", segment=0, text="é")
    assert encodable(said) == (said, encode(said))
    assert encodable(said)[0] is said


def test_encoded_events_keep_their_bodies() -> None:
    said = e.TextDelta(at_ms=1, run_id="r", segment=0, text="é")
    encoded = EncodedEvents()
    encoded.add(said, b"its body")
    assert (list(encoded), bodies_of(encoded)) == ([said], [b"its body"])
    assert bodies_of([said]) == [encode(said)]


def test_a_body_is_numbered_without_decoding_it() -> None:
    assert numbered(3, b'{"type":"x"}') == b'{"seq":3,"type":"x"}'


def test_an_event_of_an_absent_feature_keeps_its_bytes_and_the_blobs_it_names() -> None:
    """P6: a log is never unreadable because a feature is gone."""
    delivered = HookDelivered(at_ms=1, delivery_id="d", blob="b" * 64, bytes=1, event="push")
    body = encode(delivered).replace(b'"hook.', b'"elsewhere.')
    foreign = decode(body)
    assert foreign == e.ForeignEvent(tag="elsewhere.delivered", at_ms=1, body=body)
    assert encode(foreign) == body
    assert blobs_of(foreign) == blobs_of(delivered) == ("b" * 64,)
