"""An answer on a wire without stop sequences ends before the first one, however its text is cut."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from holdfast.messages import ModelRequest, UserMessage
from holdfast.model_events import Finished, ItemClosed, TokensUsed
from holdfast.models.adapters import adapter_of
from holdfast.targets import Target

from .reading import closed, finishes, read, stream, text_of, usage

TARGET = Target(name="main", wire="responses", base_url="http://127.0.0.1:9/v1", model="m")


def answer(pieces: list[str]) -> bytes:
    whole = "".join(pieces)
    content = [{"type": "output_text", "text": whole}]
    item = {"type": "message", "id": "m", "role": "assistant", "content": content}
    opened = {"type": "response.output_item.added", "output_index": 0, "item": item | {"content": []}}
    deltas = [
        {"type": "response.output_text.delta", "item_id": "m", "output_index": 0, "delta": text}
        for text in pieces
    ]
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    used = {"input_tokens": 5, "output_tokens": 7}
    ended = {"type": "response.completed", "response": {"status": "completed", "usage": used}}
    return stream(opened, *deltas, done, ended)


def asked(stop: object) -> ModelRequest:
    return ModelRequest(messages=(UserMessage("hi"),), sampling={"stop": stop})


@given(st.text("ab!", max_size=12), st.lists(st.text("ab!", min_size=1, max_size=4), max_size=3), st.data())
def test_the_text_ends_before_the_stop_sequence_that_is_complete_first(
    whole: str, stops: list[str], data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)))))
    pieces = [whole[start:end] for start, end in pairwise([0, *cuts, len(whole)])]
    events = read(adapter_of("responses").parser_of(asked(stops), TARGET), answer(pieces))
    found = min(((at + len(stop), at) for stop in stops if (at := whole.find(stop)) >= 0), default=None)
    assert text_of(events) == (whole if found is None else whole[: found[1]])
    (finish,) = finishes(events)
    assert finish.is_early == (found is not None)
    assert finish.reason == "stop"
    if found:
        assert whole[found[1] : found[0]] == finish.stop_sequence
        assert isinstance(events[-1], Finished)
        assert [item.text for item in closed(events)] == [text_of(events)]
        assert usage(events)[0].is_estimate
    else:
        assert usage(events) == [TokensUsed(input_tokens=5, output_tokens=7)]


def test_a_whole_answer_is_cut_too() -> None:
    content = [{"type": "output_text", "text": "one END two"}]
    message = {"type": "message", "id": "m", "role": "assistant", "content": content}
    body = json.dumps({"status": "completed", "output": [message]}).encode()
    events = adapter_of("responses").parser_of(asked("END"), TARGET).answer(body)
    assert text_of(events) == "one "
    assert [event.text for event in events if isinstance(event, ItemClosed)] == ["one "]
    assert finishes(events) == [Finished("stop", stop_sequence="END", is_early=True)]
