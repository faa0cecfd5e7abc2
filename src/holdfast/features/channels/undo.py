"""`/undo` in a chat: asks before it removes several runs, and replies with the changed files and runs."""

from collections.abc import Sequence

from holdfast.folds.session import Session
from holdfast.runner.undo import RemovedTurn, Undos, UndoWanted
from holdfast.safe_text import safe_line
from holdfast.undo.planning import CannotUndo

NOTHING_TO_UNDO = "Nothing to undo."
LINES_MAX = 20
LINE_CHARS_MAX = 200


async def undo_newest(undos: Undos, session_id: str, session: Session, *, turns: str, by: str) -> str:
    """Undo the newest run with changed files, and return the reply.

    `turns` is the number of runs that the person agreed to remove. An undo of several runs needs it.
    """
    last = next((run for run in reversed(session.runs.values()) if run.snapshots), None)
    if last is None:
        return NOTHING_TO_UNDO
    try:
        preview = await undos.preview(session_id, last.run_id, UndoWanted())
        if len(preview.turns) > 1 and turns != str(len(preview.turns)):
            return _question(preview.turns)
        done = await undos.undo(session_id, last.run_id, UndoWanted(plan=preview.plan, by=by))
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
