"""The state of a run's hooks as a fold of its log, and how people see them."""

from holdfast.cli.terminal.renderer import Renderer
from holdfast.cli.terminal.style import Style
from holdfast.features.hooks.events import FOLDS, TERMINAL, HookEnded, HookOutcome, HookStarted, hook_state
from holdfast.folds.run import Run, apply_to_run
from holdfast.folds.session import fold
from scene import begun


def started(on: str, number: int = 1) -> HookStarted:
    return HookStarted(at_ms=9, run_id="r1", hook_call_id=f"h{number}", hook="check", on=on)


def ended(outcome: HookOutcome, number: int = 1, reason: str = "") -> HookEnded:
    return HookEnded(
        at_ms=9, run_id="r1", hook_call_id=f"h{number}", hook="check", outcome=outcome, reason=reason
    )


def run_with(*events: HookStarted | HookEnded) -> Run:
    run = fold(begun().log).runs["r1"]
    for seq, event in enumerate(events, 100):
        apply_to_run(run, seq, event)
    return run


def test_a_hook_that_let_the_run_start_isnt_called_again() -> None:
    """P6: after a crash, a hook that hadn't ended or had denied is."""
    assert hook_state(run_with()).open == {}
    assert hook_state(run_with(started("run_start"), ended("finished"))).run_start == {"check"}
    assert hook_state(run_with(started("run_start"), ended("denied"))).run_start == set()
    assert hook_state(run_with(ended("finished"))).run_start == set()
    open_call = hook_state(run_with(started("before_tool"), started("run_end", 2)))
    assert (set(open_call.open), open_call.run_end) == ({"h1", "h2"}, {"check"})


def test_people_see_hooks_in_the_timeline_and_in_the_terminal_those_that_denied_or_failed() -> None:
    """P9."""
    texts = FOLDS.timeline
    assert texts[HookStarted](started("run_end")) == "check (run_end)"
    assert texts[HookEnded](ended("finished")) == "check finished"
    assert texts[HookEnded](ended("denied", reason="no")) == "check denied: no"
    show, renderer = TERMINAL[HookEnded], Renderer(Style(lambda: 60))
    assert show(renderer, ended("finished")) == ""
    assert "hook check denied: no" in show(renderer, ended("denied", reason="no"))
