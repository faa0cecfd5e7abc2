"""`/undo` in a messenger chat: asks before it removes several runs, and replies with the changes."""

from collections.abc import Sequence

from holdfast.features.undo.folds import snapshots_of
from holdfast.features.undo.planning import CannotUndo
from holdfast.features.undo.undos import RemovedTurn, UndoOptions, undos_of
from holdfast.runner.supervisor import Supervisor
from holdfast.safe_text import safe_line

NOTHING_TO_UNDO = "Nothing to undo."
LINES_MAX = 20
LINE_CHARS_MAX = 200


async def undo(supervisor: Supervisor, session_id: str, *, text: str, by: str) -> str:
    """Undo the newest run with changed files, and return the reply.

    `text` is the number of runs that the person agreed to remove. An undo of several runs needs it.
    """
    undos = undos_of(supervisor)
    runs = (await supervisor.view(session_id)).session.runs
    last = next((run for run in reversed(runs.values()) if snapshots_of(run)), None)
    if undos is None or last is None:
        return NOTHING_TO_UNDO
    try:
        preview = await undos.preview(session_id, last.run_id, UndoOptions())
        if len(preview.turns) > 1 and text != str(len(preview.turns)):
            return _question(preview.turns)
        done = await undos.undo(session_id, last.run_id, UndoOptions(plan=preview.plan, by=by))
    except CannotUndo as refused:
        return str(refused)
    removed = f"{_count(done.undo.turns, 'run')} and " if done.undo.turns else ""
    head = f"Undone: {removed}{_count(len(done.files), 'file')}. You can redo this on the page."
    return "\n\n".join(filter(None, [head, _listed([f"`{name}`" for name in done.files])]))


def _question(turns: Sequence[RemovedTurn]) -> str:
    texts = [f"Run {turn.number}: {turn.text}" for turn in turns]
    return (
        f"The last run changed no files. Undoing the newest run that did removes {len(turns)} runs:"
        f"\n\n{_listed(texts)}\n\nTo confirm, send /undo {len(turns)}."
    )


def _listed(lines: Sequence[str]) -> str:
    shown = [f"- {safe_line(line, LINE_CHARS_MAX)}" for line in lines[:LINES_MAX]]
    more = [f"- and {len(lines) - LINES_MAX} more"] if len(lines) > LINES_MAX else []
    return "\n".join([*shown, *more])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun if number == 1 else noun + 's'}"
