"""Approvals and questions in a terminal: how they are shown, how a typed line is read, how it is sent.

The choices below an approval or a question, and the guard against keys that were typed ahead.
"""

import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from holdfast import events as e
from holdfast.cli.terminal.tool_output import answer_words
from holdfast.client.errors import BadAnswer, Refused
from holdfast.client.updates import AskEvent, ask_id
from holdfast.policy.tool_names import UPDATE_PLAN
from holdfast.safe_text import safe_line
from holdfast.values import Choice, Width

if TYPE_CHECKING:
    from holdfast.api.server import Capabilities
    from holdfast.client import Client


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


REASON_CHARS_MAX = 500
_NO = frozenset({"n", "no", "deny", "denied"})
_YES = frozenset({"y", "yes"})


class ApprovalReply(Struct, frozen=True):
    """A person's verdict on an action."""

    choice: Choice
    reason: str = ""
    width: Width = "exact"
    steps: tuple[str, ...] = ()  # of a plan that the person changed


class QuestionReply(Struct, frozen=True):
    """A person's answer to a question."""

    text: str


class Unclear(Struct, frozen=True):
    """The typed line is no answer; the hint says what would be one."""

    hint: str


Answer: TypeAlias = ApprovalReply | QuestionReply


def read_answer(asked: AskEvent, typed: str) -> Answer | Unclear:
    """Parse the typed line. An empty line never approves anything."""
    if isinstance(asked, e.QuestionAsked):
        return _read_question(asked, typed.strip())
    word, _, rest = typed.strip().partition(" ")
    word = word.lower().rstrip(":,.")
    if word in _NO and "deny" in asked.choices:
        return ApprovalReply("deny", rest.strip()[:REASON_CHARS_MAX])
    if f"{word} " == WITH_CHANGES and asked.action.tool == UPDATE_PLAN:
        steps = tuple(step.strip() for step in rest.split(STEP_MARK.strip()) if step.strip())
        return ApprovalReply("once", steps=steps) if steps else Unclear("Add at least one step.")
    words = answer_words(asked.choices, asked.offers)
    said = " ".join(filter(None, (word, rest.strip().lower())))
    found = words.get("once" if said in _YES else said)
    if found is not None:
        return ApprovalReply(found[0], width=found[1])
    return Unclear("Press y or n or a number, or choose with ↑ ↓ and press Enter. Ctrl-C stops the run.")


def _read_question(asked: e.QuestionAsked, typed: str) -> QuestionReply | Unclear:
    if not typed:
        return Unclear("Type an answer, or press Ctrl-C to stop the run.")
    if typed.isascii() and typed.isdigit() and 1 <= int(typed[:6]) <= len(asked.choices):
        return QuestionReply(asked.choices[int(typed[:6]) - 1])
    return QuestionReply(typed)


async def send_answer(client: "Client", asked: AskEvent, answer: Answer) -> None:
    """Give the server a person's answer; raises Refused if the ask is no longer open."""
    if isinstance(answer, ApprovalReply):
        if answer.steps:
            await client.accept_plan(asked.run_id, ask_id(asked), answer.steps)
            return
        await client.approve(
            asked.run_id, ask_id(asked), choice=answer.choice, reason=answer.reason, width=answer.width
        )
    else:
        await client.answer(asked.run_id, ask_id(asked), answer=answer.text)


async def capabilities(client: "Client") -> "Capabilities | None":
    """Return the server's capabilities; None if it doesn't report them."""
    try:
        return await client.capabilities()
    except (Refused, BadAnswer):
        return None


async def key_scopes(client: "Client") -> Sequence[str]:
    """Return the scopes of the client's key; empty if unknown."""
    found = await capabilities(client)
    return () if found is None else found.auth.scopes


def may_approve(scopes: Sequence[str]) -> bool:
    """Whether a key with these scopes may answer approvals."""
    return not scopes or "approve" in scopes


CANNOT_APPROVE = (
    'Your key can\'t approve this: it lacks the scope "approve". Someone whose key has it must answer.'
)
