"""What a terminal shows of a tool's output: the end of it while it runs, and all of it on request."""

from cli.terminal.screen import Screen
from holdfast import events as e
from holdfast.cli.terminal.renderer import Renderer
from holdfast.cli.terminal.style import Style
from holdfast.cli.terminal.tool_output import CALLS_KEPT, LIVE_LINES
from holdfast.values import ToolEnding

RUN = "run_1"


def asked(tool_call_id: str = "t1") -> e.ToolAsked:
    args: dict[str, object] = {"command": "make"}
    return e.ToolAsked(at_ms=0, run_id=RUN, tool_call_id=tool_call_id, name="shell", args=args)


def printed(text: str) -> e.ToolOutput:
    return e.ToolOutput(at_ms=0, run_id=RUN, tool_call_id="t1", text=text)


def ended(result: str, ending: ToolEnding = "finished") -> e.ToolEnded:
    is_ok = ending == "finished"
    return e.ToolEnded(
        at_ms=0,
        run_id=RUN,
        tool_call_id="t1",
        ok=is_ok,
        result=result,
        ending=ending,
        ms=1500,
    )


def shown(text: str) -> list[str]:
    screen = Screen(60)
    screen.write(text)
    return screen.text.splitlines()


def running(*pieces: str) -> Renderer:
    renderer = Renderer(Style(lambda: 60))
    for event in (asked(), *map(printed, pieces)):
        assert not renderer.hear(event)
    return renderer


def test_the_last_lines_are_live_and_one_key_shows_more_of_them() -> None:
    renderer = running("".join(f"line {number}\n" for number in range(30)), "half of a li")
    lines = shown(renderer.live())
    assert lines == [*(f"  │ line {number}" for number in range(26, 30)), "  │ half of a li"]
    assert len(lines) == LIVE_LINES
    renderer.outputs.is_expanded = True
    assert len(shown(renderer.live())) == 31


def test_a_progress_bar_shows_its_newest_state_and_no_control_sequence() -> None:
    renderer = running("10 %\r50 %\r", "\x1b[31m99 %\x1b[0m\r\n", "next\x1b]0;evil\x07\n", "x" * 100)
    assert shown(renderer.live()) == ["  │ 99 %", "  │ next", f"  │ {'x' * 55}…"]


def test_an_end_leaves_three_lines_and_says_how_many_there_were() -> None:
    """P9: quiet when it works."""
    renderer = running("".join(f"line {number}\n" for number in range(30)))
    lines = shown(renderer.hear(ended("all the lines")))
    assert lines == [
        "✓ shell make  1.5 s",
        "  … 27 more lines; Ctrl-O shows them",
        "  │ line 27",
        "  │ line 28",
        "  │ line 29",
    ]
    assert not renderer.live()
    call = renderer.outputs.newest()
    assert call is not None
    assert shown(renderer.outputs.expanded(call)) == ["shell make", "  │ all the lines"]


def test_what_a_stopped_command_printed_is_not_lost() -> None:
    renderer = running("one\ntwo\n")
    assert shown(renderer.hear(ended("Stopped.", "killed")))[0] == "✗ shell make  1.5 s · killed"
    call = renderer.outputs.newest()
    assert call is not None
    assert call.text() == "one\ntwo\n\nStopped."


def test_a_tool_that_prints_nothing_stays_one_line_and_old_calls_are_forgotten() -> None:
    renderer = running()
    assert shown(renderer.hear(ended("the text of a file"))) == ["✓ shell make  1.5 s"]
    for number in range(2 * CALLS_KEPT):
        renderer.hear(asked(f"more {number}"))
    assert len(renderer.outputs.calls) == CALLS_KEPT
