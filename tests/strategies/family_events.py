"""What happens to sub-agents in a legal log: they begin, ask and end."""

from typing import TYPE_CHECKING, Any, get_args

from hypothesis import strategies as st

from holdfast import events as e
from holdfast.values import OutcomeKind

if TYPE_CHECKING:
    from strategies.legal_logs import Writer

_OUTCOMES = st.sampled_from(get_args(OutcomeKind))


def start_child(writer: "Writer") -> None:
    """A run begins a sub-agent."""
    if (run := writer.running()) is not None:
        child_id = writer.fresh("child")
        run.children.append(child_id)
        writer.put(
            e.ChildStarted,
            run_id=run.run_id,
            child_id=child_id,
            child_run_id=f"r{child_id}",
            message_id=f"m{child_id}",
            tool_call_id=next(iter(run.tools), ""),
            name="agent-1",
        )


def ask_by_child(writer: "Writer") -> None:
    """A sub-agent asks, and maybe somebody answers."""
    for run in writer.runs.values():
        if child_id := writer.pick(run.children):
            at: dict[str, Any] = {"at_ms": 1, "run_id": f"r{child_id}"}
            ask_id = writer.fresh("ask")
            ask = e.QuestionAsked(**at, question_id=ask_id, tool_call_id="t", text="?")
            writer.put(e.ChildAsked, run_id=run.run_id, child_id=child_id, ask=ask)
            if writer.draw(st.booleans()):
                settled = e.QuestionAnswered(**at, question_id=ask_id, answer="!")
                writer.put(e.ChildAskSettled, run_id=run.run_id, child_id=child_id, settled=settled)
            return


def end_child(writer: "Writer") -> None:
    """A sub-agent may end after its parent's run."""
    for run in writer.runs.values():
        if child_id := writer.pick(run.children):
            run.children.remove(child_id)
            outcome = writer.draw(_OUTCOMES)
            writer.put(e.ChildEnded, run_id=run.run_id, child_id=child_id, outcome=outcome)
