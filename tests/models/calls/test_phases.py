"""What a provider calls its own words (commentary, final answer) comes back to it, and to nobody else."""

from typing import cast

from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Say, SeenRequest
from holdfast.folds.context import context_for
from holdfast.interfaces.model import Answer
from holdfast.messages import ModelRequest, ToolMessage, UserMessage

from .calling import Line, line_to, target_of


def goes_on(line: Line) -> ModelRequest:
    """The next call of the run, from the fold of all that is on its log."""
    messages = context_for(line.told.seen, line.told.run_id)
    more = () if isinstance(messages[-1], UserMessage | ToolMessage) else (UserMessage("go on"),)
    return ModelRequest(messages=(*messages, *more))


def tool_ran(line: Line, tool_call_id: str) -> None:
    run_id = line.told.run_id
    line.told.emit(e.ToolStarted(at_ms=1, run_id=run_id, tool_call_id=tool_call_id, effect_key="k"))
    line.told.emit(e.ToolEnded(at_ms=1, run_id=run_id, tool_call_id=tool_call_id, ok=True, result="green"))


def phases(request: SeenRequest) -> list[tuple[object, object]]:
    items = cast("list[dict[str, object]]", (request.body or {})["input"])
    return [(item["content"], item.get("phase")) for item in items if item.get("role") == "assistant"]


async def test_a_run_that_goes_to_another_wire_and_back_brings_the_phases_back() -> None:
    first = [Say("I look.", phase="commentary"), CallTool("look", {}, id="t1")]
    last = [Say("Still so.", phase="commentary"), Say("It is green.", phase="final_answer")]
    async with ChaosServer(first, last, [Say("bye")]) as codex, ChaosServer([Say("hm")]) as other:
        here, there = target_of(codex, "responses"), target_of(other, "chat", "other")
        async with line_to(here) as line:
            assert isinstance(await line.ask(), Answer)
            tool_ran(line, "t1")
            line.targets = (there,)
            assert isinstance(await line.ask(goes_on(line)), Answer)
            assert "commentary" not in str(other.seen.request(1).body)
            line.targets = (here,)
            assert isinstance(await line.ask(goes_on(line)), Answer)
            assert phases(codex.seen.request(2)) == [("I look.", "commentary"), ("hm", None)]
            assert isinstance(await line.ask(goes_on(line)), Answer)
            assert phases(codex.seen.request(3)) == [
                ("I look.", "commentary"),
                ("hm", None),
                ("Still so.", "commentary"),
                ("It is green.", "final_answer"),
            ]
            told = [(event.text, event.phase) for event in line.told.of(e.TextDone)]
            assert told[-2:] == [("It is green.", "final_answer"), ("bye", "")]
