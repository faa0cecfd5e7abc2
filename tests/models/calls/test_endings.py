"""How an answer ends: completed only by the protocol's own marker; half of one is never taken for a whole."""

from typing import Any

import pytest

from holdfast import events as e
from holdfast.chaos import (
    CallTool,
    CutCall,
    Drip,
    Drop,
    EndOfBody,
    ErrorEvent,
    Finish,
    Gate,
    Hang,
    HangUp,
    Malformed,
    Raw,
    Refuse,
    ReportedUsage,
    Say,
    SayInTwoWrites,
    SayWords,
    Status,
    Step,
    Think,
    Wait,
)
from holdfast.interfaces.model import Answer, NoAnswer
from holdfast.targets import Wire
from side_by_side import on_each_wire
from tables import for_each_row

from .calling import line_of, request_of

GOOD = [Say("hello")]
CUTS: dict[str, Step] = {"reset": Drop(), "fin": HangUp(), "end of body": EndOfBody()}


@on_each_wire
async def test_an_answer_is_told_piece_by_piece_and_whole(wire: Wire) -> None:
    """P4: the happy path of every wire."""
    async with line_of(wire, [Think("hm"), SayWords("one two three")]) as (line, _):
        answer = await line.ask()
        assert isinstance(answer, Answer)
        assert (answer.call_id, answer.finish) == (line.told.of(e.CallStarted)[0].call_id, "stop")
        assert line.told.text == "one two three"
        assert "".join(event.text for event in line.told.of(e.TextDelta)) == "one two three"
        assert [event.text for event in line.told.of(e.TextDone)] == ["one two three"]
        assert [event.text for event in line.told.of(e.ReasoningDone)] == ["hm"]
        (used,) = line.told.of(e.Usage)
        assert used.output_tokens > 0


async def test_an_answer_that_begins_with_a_stop_sequence_is_empty_and_complete() -> None:
    """It isn't asked for again: the next answer would be cut in the same way."""
    async with line_of("responses", [Say("END of it"), Hang()]) as (line, server):
        answer = await line.ask(request_of(sampling={"stop": "END"}))
        assert isinstance(answer, Answer)
        assert (answer.finish, answer.text) == ("stop", "")
        assert len(server.seen.requests) == 1


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@on_each_wire
async def test_a_drop_after_one_visible_token_is_retried_and_its_text_superseded(
    wire: Wire, cut: Step
) -> None:
    """Scenario 6, scenario 7, S003-2, P4: a real drop is a network failure, and is retried."""
    async with line_of(wire, [Say("hel"), cut], GOOD) as (line, server):
        assert isinstance(await line.ask(), Answer)
        (failed,) = line.told.of(e.AttemptFailed)
        assert failed.failure.kind == "dropped"
        assert failed.close_reason == "peer"
        assert [event.attempt_id for event in line.told.of(e.AttemptSuperseded)] == [failed.attempt_id]
        assert line.told.text == "hello", "neither doubled nor lost"
        assert server.seen.requests_seen == 2


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
@on_each_wire
async def test_a_drop_before_anything_visible_supersedes_nothing(wire: Wire, cut: Step) -> None:
    """Scenario 6."""
    async with line_of(wire, [cut], GOOD) as (line, _):
        assert isinstance(await line.ask(), Answer)
        assert line.told.kinds == ["dropped"]
        assert line.told.of(e.AttemptSuperseded) == []
        assert line.told.text == "hello"


@on_each_wire
async def test_text_that_nobody_finished_is_kept_as_a_partial_when_the_call_fails(wire: Wire) -> None:
    """Scenario 7, P4: text, a clean end of file and no marker is no answer, however often."""
    async with line_of(
        wire, [Say("one"), EndOfBody()], [Say("two"), EndOfBody()], [Say("3"), EndOfBody()]
    ) as (
        line,
        _,
    ):
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        assert ended.failure.kind == "dropped"
        assert line.told.text == "3", "the last partial stays, the others are superseded"
        assert len(line.told.of(e.AttemptSuperseded)) == 2
        assert line.told.of(e.TextDone) == []


@on_each_wire
async def test_a_tool_call_without_the_terminal_marker_is_not_asked_for(wire: Wire) -> None:
    """Scenario 8, P4: not even one whose arguments are complete."""
    whole = [CallTool("rm", {"path": "/"}, id="c1"), EndOfBody()]
    cut = [CutCall("rm", {"path": "/"}, id="c1"), Drop()]
    async with line_of(wire, whole, cut, [Say("hello")]) as (line, _):
        answer = await line.ask()
        assert isinstance(answer, Answer)
        assert answer.tools == ()
        assert line.told.of(e.ToolAsked) == []
        assert line.told.kinds == ["dropped", "dropped"]


@on_each_wire
async def test_a_tool_call_that_was_cut_by_the_length_limit_is_not_asked_for(wire: Wire) -> None:
    """Scenario 8."""
    async with line_of(wire, [Say("I look."), CutCall("look", {"at": "it"}), Finish("length")]) as (line, _):
        answer = await line.ask()
        assert isinstance(answer, Answer)
        assert answer.finish == "length"
        assert answer.tools == ()
        assert line.told.of(e.ToolAsked) == []


@on_each_wire
async def test_a_whole_call_of_an_answer_that_was_cut_is_not_asked_for_either(wire: Wire) -> None:
    """P4: the answer goes on in another turn, where the model says again what it wants."""
    script = [CallTool("one", {"n": 1}), CutCall("two", {"n": 2}), Finish("length")]
    async with line_of(wire, script) as (line, _):
        answer = await line.ask()
        assert isinstance(answer, Answer)
        assert (answer.finish, answer.tools) == ("length", ())
        assert line.told.of(e.ToolAsked) == []


async def test_a_call_of_an_answer_that_is_called_completed_and_is_not_is_not_asked_for() -> None:
    """P4: gateways end every stream as completed, and close calls that were cut."""
    end = 'data: {"type":"response.completed","response":{"status":"incomplete"}}\n\n'
    async with line_of("responses", [CallTool("rm", {"path": "/"}), Raw(end), EndOfBody()]) as (line, _):
        answer = await line.ask()
        assert isinstance(answer, Answer)
        assert (answer.finish, answer.tools) == ("length", ())
        assert line.told.of(e.ToolAsked) == []


@on_each_wire
async def test_tools_are_asked_for_once_the_answer_is_whole(wire: Wire) -> None:
    """Scenario 8."""
    async with line_of(wire, [CallTool("look", {"at": "it"}, id="c1"), CallTool("go", {}, id="c1")]) as (
        line,
        _,
    ):
        answer = await line.ask()
        assert isinstance(answer, Answer)
        assert answer.finish == "tools"
        asked = line.told.of(e.ToolAsked)
        assert [(event.name, event.args) for event in asked] == [("look", {"at": "it"}), ("go", {})]
        assert len({event.tool_call_id for event in asked}) == 2, "two calls under one id get two"
        assert [tool.tool_call_id for tool in answer.tools] == [event.tool_call_id for event in asked]


@for_each_row("usage_chunk", ["always", "never"])
@on_each_wire
async def test_a_usage_only_chunk_after_the_finish_is_normal(wire: Wire, usage_chunk: Any) -> None:
    """Scenario 9."""
    used = ReportedUsage(input_tokens=7, output_tokens=5)
    async with line_of(wire, [Say("hello"), Finish(usage=used, usage_chunk=usage_chunk)]) as (line, _):
        assert isinstance(await line.ask(), Answer)
        assert line.told.text == "hello"
        counted = [(event.input_tokens, event.output_tokens) for event in line.told.of(e.Usage)]
        is_unreported = usage_chunk == "never" and wire == "chat"
        assert counted == [(4, 1) if is_unreported else (7, 5)]
        assert [event.estimated for event in line.told.of(e.Usage)] == [is_unreported]


@on_each_wire
async def test_an_ending_said_twice_ends_once(wire: Wire) -> None:
    """P4."""
    async with line_of(wire, [Say("hello"), Finish(times=2)]) as (line, _):
        assert isinstance(await line.ask(), Answer)
        assert line.told.text == "hello"
        assert len(line.told.of(e.TextDone)) == 1


async def test_a_chat_answer_without_its_done_line_is_whole_at_the_end_of_the_stream() -> None:
    """Scenario 9: finish_reason and the end of the stream are the marker of this wire."""
    async with line_of("chat", [Say("hello"), Finish(done="missing")]) as (line, _):
        assert isinstance(await line.ask(), Answer)
        assert line.told.failures == []


@on_each_wire
async def test_how_the_connection_ends_takes_nothing_from_a_whole_answer(wire: Wire) -> None:
    """P4: the marker has come."""
    async with line_of(wire, [Say("hello"), Finish(), Drop()]) as (line, server):
        assert isinstance(await line.ask(), Answer)
        assert (line.told.text, line.told.failures) == ("hello", [])
        assert server.seen.requests_seen == 1


@on_each_wire
async def test_a_truncated_answer_is_not_a_dropped_one(wire: Wire) -> None:
    """P4."""
    async with line_of(wire, [Say("hel"), Finish("length")]) as (line, server):
        answer = await line.ask()
        assert isinstance(answer, Answer)
        assert answer.finish == "length"
        assert line.told.failures == []
        assert server.seen.requests_seen == 1


@on_each_wire
async def test_an_empty_answer_is_no_success_and_its_trace_is_kept(wire: Wire) -> None:
    """S000-10."""
    async with line_of(wire, [Finish()], [Finish()], [Finish()]) as (line, server):
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        assert ended.failure.kind == "empty"
        assert len(ended.trace) == 3
        assert server.seen.requests_seen == 3


@on_each_wire
async def test_thinking_alone_is_an_empty_answer_and_is_superseded(wire: Wire) -> None:
    """S000-10: what led to nothing is neither in the answer nor in the context."""
    async with line_of(wire, [Think("hm", signature="s", encrypted="e"), Finish()], GOOD) as (line, _):
        assert isinstance(await line.ask(), Answer)
        assert line.told.kinds == ["empty"]
        assert len(line.told.of(e.AttemptSuperseded)) == 1
        assert [type(entry).__name__ for entry in line.told.seen.entries] == ["Person", "Text"]


async def test_hidden_thinking_that_was_told_is_superseded_too() -> None:
    """Scenario 6: thinking without a readable word is on the log all the same."""
    script = [Think("", encrypted="secret"), Drop()]
    async with line_of("anthropic", script, GOOD) as (line, _):
        assert isinstance(await line.ask(), Answer)
        assert len(line.told.of(e.ReasoningDone)) == 1
        assert len(line.told.of(e.AttemptSuperseded)) == 1


@on_each_wire
async def test_a_refusal_is_shown_as_such_and_not_asked_again(wire: Wire) -> None:
    """P4: a refusal is an outcome."""
    async with line_of(wire, [Refuse("No.")]) as (line, server):
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        assert ended.failure.kind == "content_refused"
        assert line.told.text == "No."
        assert server.seen.requests_seen == 1


@on_each_wire
async def test_a_frame_that_is_not_the_protocol_is_retried_once(wire: Wire) -> None:
    """P4."""
    async with line_of(wire, [Say("hel"), Malformed()], [Malformed()], GOOD) as (line, server):
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        assert line.told.kinds == ["malformed", "malformed"]
        assert server.seen.requests_seen == 2


@on_each_wire
async def test_an_error_in_the_middle_of_a_stream_is_a_failure(wire: Wire) -> None:
    """P4."""
    kinds = {"responses": "server_error", "chat": "server_error", "anthropic": "overloaded_error"}
    script = [Say("hel"), ErrorEvent("we are sorry", type=kinds[wire], code=kinds[wire])]
    async with line_of(wire, script, GOOD) as (line, _):
        assert isinstance(await line.ask(), Answer)
        (failure,) = line.told.failures
        assert "we are sorry" in failure.text
        assert failure.kind == ("overloaded" if wire == "anthropic" else "server_error")
        assert line.told.text == "hello"


@on_each_wire
async def test_a_web_page_instead_of_an_answer_is_no_answer(wire: Wire) -> None:
    """P4."""
    page = Status(200, {"content-type": "text/html"}, "<html><title>Please log in</title></html>")
    async with line_of(wire, [page], [page]) as (line, _):
        ended = await line.ask()
        assert isinstance(ended, NoAnswer)
        assert "Please log in" in ended.failure.text


@for_each_row("bytes_at_once", [1, 7])
@on_each_wire
async def test_bytes_that_drip_make_the_same_answer(wire: Wire, bytes_at_once: int) -> None:
    """P4."""
    async with line_of(wire, [Drip(bytes_at_once), Say("grüße"), SayInTwoWrites(" naïve")]) as (line, _):
        assert isinstance(await line.ask(), Answer)
        assert line.told.text == "grüße naïve"


async def test_what_an_attempt_used_is_told_even_if_it_failed() -> None:
    """Money was spent: the anthropic wire says how much at the start."""
    async with line_of("anthropic", [Say("hel"), Drop()], GOOD) as (line, _):
        await line.ask()
        assert len(line.told.of(e.Usage)) == 2


@on_each_wire
async def test_every_piece_that_comes_alone_is_told_alone(wire: Wire) -> None:
    """P1: nothing waits for company; what comes together may be told together."""
    gates = [Gate() for _ in range(3)]
    steps = [step for n, gate in enumerate(gates) for step in (Say(f"{n} "), Wait(gate))]
    async with line_of(wire, steps) as (line, _):
        task = line.start()
        for number, gate in enumerate(gates):
            await gate.reached()
            await line.told.until_text(f"{number} ")
            gate.open()
        assert isinstance(await task, Answer)
        assert [event.text for event in line.told.of(e.TextDelta)] == ["0 ", "1 ", "2 "]
