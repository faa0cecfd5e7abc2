"""The choices below an approval or a question, and the guard against keys that were typed ahead."""

import textwrap
import time
from collections.abc import Callable, Mapping

from msgspec import Struct

from holdfast import events as e
from holdfast.cli.terminal.phrases import answer_words
from holdfast.client.updates import AskEvent
from holdfast.policy.tool_names import UPDATE_PLAN
from holdfast.safe_text import safe_line

GUARD_S = 0.3
POINTER = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
DIGITS = "123456789"
TOO_EARLY = "That key was too early to count."
CHOICE_CHARS_MAX = 200
_LABELS: Mapping[str, str] = {
    "once": "Allow once",
    "session": "Allow in this session",
    "session similar": "Allow similar commands in this session",
    "always": "Always allow",
    "always similar": "Always allow similar commands",
    "deny": "Deny",
}
_LETTERS: Mapping[str, str] = {"once": "y", "deny": "n"}
# The beginnings of lines that the person completes.
WITH_REASON = "deny "
WITH_CHANGES = "change "
STEP_MARK = " | "  # between the steps of a changed plan


class TypeAheadGuard:
    """Lets no key answer an ask that its typist cannot have read.

    The first key counts only if the ask has been on the screen for a moment and no other key came just
    before: someone who is typing when the ask appears keeps typing for a while. After that, every key counts.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, guard_s: float = GUARD_S) -> None:
        self._clock = clock
        self._guard_s = guard_s
        self._quiet_since_s: float | None = None
        self._is_over = False
        self._has_dropped = False

    def drawn(self) -> bool:
        """Note that the ask is on the screen; True the first time."""
        if self._quiet_since_s is not None:
            return False
        self._quiet_since_s = self._clock()
        return True

    @property
    def is_over(self) -> bool:
        """Whether a key that is pressed now counts."""
        return self._is_over or self._is_quiet()

    @property
    def dropped_last(self) -> bool:
        """Whether a key didn't count, and none has counted since."""
        return self._has_dropped and not self._is_over

    def lets_through(self) -> bool:
        """Take one more key, and say whether it counts."""
        self._is_over = self.is_over
        self._has_dropped = not self._is_over
        if not self._is_over and self._quiet_since_s is not None:
            self._quiet_since_s = self._clock()
        return self._is_over

    def _is_quiet(self) -> bool:
        return self._quiet_since_s is not None and self._clock() - self._quiet_since_s >= self._guard_s


class MenuEntry(Struct, frozen=True):
    """One choice: what it is called, the line that answers so, and its letter if it has one."""

    label: str
    line: str
    letter: str = ""


class AskMenu:
    """The choices of one ask. None is chosen at first, so that Enter alone answers nothing."""

    def __init__(self, asked: AskEvent, guard: TypeAheadGuard | None = None) -> None:
        self.guard = guard or TypeAheadGuard()
        self.entries = _entries(asked)
        self.chosen: int | None = None
        self._is_question = isinstance(asked, e.QuestionAsked)

    def move(self, by: int) -> None:
        """Choose the entry below or above; the first time, the first or the last one."""
        if not self.entries:
            return
        if self.chosen is None:
            self.chosen = 0 if by > 0 else len(self.entries) - 1
        else:
            self.chosen = (self.chosen + by) % len(self.entries)

    def line_for(self, key: str) -> str | None:
        """The line that a single key stands for, if it stands for one."""
        if key and key in DIGITS and int(key) <= len(self.entries):
            return self.entries[int(key) - 1].line
        return next((one.line for one in self.entries if one.letter and one.letter == key.lower()), None)

    def all_answer(self, keys: str) -> bool:
        """Whether every one of these keys would answer, so that together they aren't part of a message."""
        return all(self.line_for(key) is not None for key in keys)

    def line_chosen(self) -> str | None:
        """The line of the chosen entry, if one is chosen."""
        return None if self.chosen is None else self.entries[self.chosen].line

    @property
    def hint(self) -> str:
        """How to answer; nothing while no key counts yet, unless one was pressed too early."""
        early = TOO_EARLY if self.guard.dropped_last else ""
        if not self.guard.is_over:
            return early
        return f"{early} Now: {self._keys}" if early else self._keys

    @property
    def _keys(self) -> str:
        if not self._is_question:
            return "y, n, a number, or ↑ ↓ and Enter"
        return "a number, ↑ ↓ and Enter, or your own answer" if self.entries else "type your answer"

    def lines(self, width: int) -> list[str]:
        """The menu as lines for so many columns, the chosen entry marked and in colour."""
        shown: list[str] = []
        for at, entry in enumerate(self.entries):
            letter = f"  ({entry.letter})" if entry.letter else ""
            number = f"{at + 1}. "
            text = textwrap.wrap(f"{entry.label}{letter}", max(20, width - 4 - len(number))) or [""]
            first, *rest = [number + text[0], *(" " * len(number) + line for line in text[1:])]
            if at == self.chosen:
                shown += [f"\x1b[1;36m  {POINTER} {first}\x1b[0m"]
                shown += [f"\x1b[1;36m    {line}\x1b[0m" for line in rest]
            else:
                shown += [f"    {line}" for line in (first, *rest)]
        return shown


def _entries(asked: AskEvent) -> tuple[MenuEntry, ...]:
    if isinstance(asked, e.QuestionAsked):
        labels = [safe_line(choice, CHOICE_CHARS_MAX) for choice in asked.choices]
        return tuple(MenuEntry(label, str(number)) for number, label in enumerate(labels, 1))
    if asked.action.tool == UPDATE_PLAN:
        return _plan_entries(asked)
    words = answer_words(asked.choices, asked.offers)
    entries = [MenuEntry(_LABELS[one], one, _LETTERS.get(one, "")) for one in words]
    if "deny" in asked.choices:
        entries.append(MenuEntry("Deny and say why", WITH_REASON))
    return tuple(entries)


def _plan_entries(asked: e.ApprovalAsked) -> tuple[MenuEntry, ...]:
    steps = [safe_line(line.partition("] ")[2]) for line in asked.action.summary.splitlines()]
    return (
        MenuEntry("Accept the plan", "once", "y"),
        MenuEntry("Change it and accept", WITH_CHANGES + STEP_MARK.join(steps)),
        MenuEntry("Reject it", "deny", "n"),
        MenuEntry("Reject it and say why", WITH_REASON),
    )
