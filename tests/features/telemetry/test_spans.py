"""Spans of logs that no server has written just so."""

from typing import Any

from holdfast import events as e
from holdfast.features.telemetry.spans import COMMIT_S, Spans

RUN: Any = {"run_id": "run_1", "at_ms": 1_000}


def names(spans: Spans) -> list[str]:
    return [one.name for one in spans.take()]


def test_a_slow_commit_is_a_span_of_its_run_and_a_quick_one_is_none() -> None:
    spans = Spans()
    spans.add([e.RunStarted(**RUN)], COMMIT_S / 2, 2_000_000_000)
    assert names(spans) == []
    spans.add([e.TextDelta(**RUN, segment=1, text="a")], COMMIT_S, 2_000_000_000)
    (commit,) = spans.take()
    assert (commit.name, commit.end_ns - commit.begin_ns) == ("commit", int(COMMIT_S * 1e9))


def test_a_resumed_run_keeps_its_trace_and_its_ids() -> None:
    """P6: the second process doesn't know what the first one had open."""
    first, second = Spans(), Spans()
    first.add([e.RunStarted(**RUN), e.CallStarted(**RUN, call_id="call_1", turn=1)], 0, 0)
    context = first.requested(run="run_1", session="s")
    second.add([e.RunResumed(**RUN, after="crash")], 0, 0)
    assert second.requested(run="run_1", session="s") == context
    second.add([e.RunEnded(**RUN, outcome="completed")], 0, 0)
    (root,) = second.take()
    assert context == f"00-{root.trace_id}-{root.span_id}-01"
    assert root.attributes["holdfast.resumed_after"] == "crash"


def test_the_spans_that_are_open_end_with_their_run() -> None:
    """A stop leaves calls and tools unended."""
    spans = Spans()
    call = e.CallStarted(**RUN, call_id="call_1", turn=1)
    tool = e.ToolAsked(**RUN, tool_call_id="t", name="shell")
    spans.add([e.RunStarted(**RUN), call, tool, e.RunEnded(**RUN, outcome="cancelled")], 0, 0)
    assert sorted(names(spans)) == ["chat", "execute_tool shell", "invoke_agent"]


def test_a_context_that_is_no_context_is_ignored() -> None:
    """P12."""
    spans = Spans()
    spans.called_by("run_1", "00-" + "g" * 32 + "-b7ad6b7169203331-01")
    spans.add([e.RunStarted(**RUN), e.RunEnded(**RUN, outcome="completed")], 0, 0)
    assert spans.take()[0].parent_id == ""
