"""Cards of approvals and questions, which always show the full text before anyone can approve.

If the text doesn't fit on the card, it's sent in messages above it. If those are too many, or one of them
didn't arrive, the card has no approve button: the request can only be denied in the chat, or answered on the
page.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from holdfast import events as e
from holdfast.features.channels.texts import PRESS, TYPE, button_data
from holdfast.folds.run import AskStatus
from holdfast.safe_text import exact, safe, safe_line
from holdfast.tools.files.edits import NOT_COMPARED
from holdfast.values import Choice

TOO_LONG = "Too long to show here. Open the page to read and allow it."
LONG_QUESTION = "This question is too long to show here. Open the page to read it."
ABOVE = "The message above has the full text."
ALL_ABOVE = "The {count} messages above have the full text."
WORDS_CHARS_MAX = 40_000  # of the text above a card
SAID_CHARS_MAX = 300  # of the agent's last message before the request
SHORT_CHARS_MAX = 200  # of the headline of a shortened card
LABEL_CHARS_MAX = 60
LISTED_CHARS_MAX = 1_200  # of all actions in a list, which is one message on every platform
CHOICES: Final[Mapping[Choice, str]] = MappingProxyType(
    {
        "once": "Allow once",
        "session": "Allow in this conversation",
        "always": "Always allow",
        "deny": "Deny",
    }
)
_DECIDED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "once": "✓ Allowed once",
        "session": "✓ Allowed in this conversation",
        "always": "✓ Always allowed",
        "deny": "✗ Denied",
    }
)


class Card(Struct, frozen=True):
    """A request with its buttons. Each has a label and up to 64 bytes of data, sent when it's pressed."""

    headline: str
    detail: str = ""  # shown verbatim, in a monospaced font
    notes: tuple[str, ...] = ()
    buttons: tuple[tuple[str, str], ...] = ()


# Returns whether a card fits in one message, including a repeat mark.
FitsIn: TypeAlias = Callable[[Card], bool]


def about_card(ask: AskStatus, *, head: str, said: str) -> list[str]:
    """Return optional notes for a card: its source, and the agent's last message before the request."""
    notes = [f"From {safe_line(head)}"] if head else []
    words = _shortened(safe_line(said), SAID_CHARS_MAX)
    return [*notes, f"The agent said: {words}"] if words and isinstance(ask.asked, e.ApprovalAsked) else notes


def card_of(ask: AskStatus, fits: FitsIn, *, above: int = 0, about: Sequence[str] = ()) -> Card:
    """Build the card of an approval or question, open or resolved, for the platform.

    `above` is the number of delivered messages with the full text, or 0.
    """
    card = _whole(ask)
    if ask.state != "open":
        decided = Card(card.headline, card.detail, (_decision(ask),))
        return decided if fits(decided) else _cut(decided, fits)
    card = _open_card(ask, card, fits, above=above)
    for note in about:
        noted = replace(card, notes=(*card.notes[:-1], note, *card.notes[-1:]))
        card = noted if fits(noted) else card
    return card


def _open_card(ask: AskStatus, card: Card, fits: FitsIn, *, above: int) -> Card:
    if is_shown_whole(ask, fits):
        return card
    # Findings stay on the card if there is room; some cards have more buttons than fit.
    note = ABOVE if above == 1 else ALL_ABOVE.format(count=above)
    all_notes = replace(card, notes=(*card.notes[:-1], note, card.notes[-1]))
    cut = [_cut(one, fits) for one in (all_notes, replace(card, notes=(note, card.notes[-1]))) if above]
    return next((one for one in cut if fits(one)), _cut(_without_consent(ask, card), fits))


def is_shown_whole(ask: AskStatus, fits: FitsIn) -> bool:
    """Return whether a card shows the whole request, so that it can be approved there."""
    return _is_complete(ask) and fits(_whole(ask))


def full_text(ask: AskStatus) -> str:
    """Return the full text of a card as markdown, or "" if it's too long or unknown."""
    match ask.asked:
        case e.ApprovalAsked() as asked if _is_complete(ask):
            whole = _approval_card(asked)
            head = f"{asked.approval_id}: {whole.headline}"
            words = _fenced("\n".join([head, whole.detail, *whole.notes[:-1]]))
        case e.QuestionAsked() as asked:
            choices = [f"{at}. {exact(choice)}" for at, choice in enumerate(asked.choices, 1)]
            words = "\n\n".join([safe(asked.text), "\n".join(choices)])
        case _:
            return ""
    return words if len(words) <= WORDS_CHARS_MAX else ""


def listed(asks: Sequence[AskStatus]) -> str:
    """List actions in full with their ids, as markdown, and count those that don't fit."""
    entries: list[str] = []
    left, unlisted = LISTED_CHARS_MAX, 0
    for ask in asks:
        text = _listed_text(ask)
        if _is_complete(ask) and len(text) <= left:
            left -= len(text)
            entries.append(f"`{ask.asked.ask_id}`:\n\n{_fenced(text)}")
        else:
            unlisted += 1
    if unlisted:
        entries.append(f"Too long to list: {unlisted}. See their cards, or open the page.")
    return "\n\n".join(entries)


def several(asks: Sequence[AskStatus], command: str) -> str:
    """List pending requests and how to answer one, as markdown."""
    return f"Press a button, or send /{command} ID. Pending requests:\n\n{listed(asks)}"


def is_listed_whole(ask: AskStatus) -> bool:
    """Return whether a list can show this action in full."""
    return _is_complete(ask) and len(_listed_text(ask)) <= LISTED_CHARS_MAX


def _whole(ask: AskStatus) -> Card:
    """Build a card with everything in the request."""
    match ask.asked:
        case e.ApprovalAsked() as asked:
            return _approval_card(asked)
        case e.QuestionAsked() as asked:
            return _question_card(asked)
        case _:
            raise AssertionError("a client's tools are no card")


def _is_complete(ask: AskStatus) -> bool:
    """Return whether the request is complete. The diff of a large change isn't."""
    return not (isinstance(ask.asked, e.ApprovalAsked) and NOT_COMPARED in ask.asked.action.diff)


def _approval_card(asked: e.ApprovalAsked) -> Card:
    tool = f"({exact(asked.action.tool)})"
    return Card(
        headline=" ".join(filter(None, ("Allow this action?", exact(asked.headline), tool))),
        detail=_detail(asked),
        notes=(*_about(asked), f"For /approve and /deny: {asked.approval_id}"),
        buttons=tuple(_button(asked, choice) for choice in asked.choices),
    )


def _button(asked: e.ApprovalAsked, choice: Choice) -> tuple[str, str]:
    return CHOICES[choice], button_data("approval", asked.approval_id, choice)


def _detail(asked: e.ApprovalAsked) -> str:
    return "\n".join(exact(text).rstrip("\n") for text in (asked.action.summary, asked.action.diff) if text)


def _about(asked: e.ApprovalAsked) -> list[str]:
    """Return the paths and findings of an action."""
    place = [f"In {', '.join(map(exact, asked.action.paths))}"] if asked.action.paths else []
    return [note for note in (*place, *map(exact, asked.findings), exact(asked.once_because)) if note]


def _question_card(asked: e.QuestionAsked) -> Card:
    """Build the card of a question. Choices that are too long for a button are listed above."""
    choices = [exact(choice) for choice in asked.choices]
    labels, detail = choices, ""
    if any(len(choice) > LABEL_CHARS_MAX for choice in choices):
        detail = "\n".join(f"{at}. {choice}" for at, choice in enumerate(choices, 1))
        labels = [f"{at}. {choice}"[: LABEL_CHARS_MAX - 1] + "…" for at, choice in enumerate(choices, 1)]
    buttons = tuple(
        (label, button_data("question", asked.question_id, str(at))) for at, label in enumerate(labels)
    )
    note = PRESS if buttons else TYPE
    return Card(safe(asked.text), detail, (note,), buttons)


def _without_consent(ask: AskStatus, card: Card) -> Card:
    """Build the card of a request that can't be shown in full, which can only be denied."""
    if isinstance(ask.asked, e.QuestionAsked):
        return Card(card.headline, card.detail, (LONG_QUESTION,))
    assert isinstance(ask.asked, e.ApprovalAsked)
    refusals = tuple(_button(ask.asked, choice) for choice in ask.asked.choices if choice == "deny")
    return Card(card.headline, card.detail, (TOO_LONG, f"For /deny: {ask.asked.approval_id}"), refusals)


def _cut(card: Card, fits: FitsIn) -> Card:
    """Shorten the detail, or the headline if there is none, to fit."""
    if fits(card):
        return card
    if not card.detail:
        return _longest(card.headline, lambda text: replace(card, headline=text), fits)
    short = replace(card, headline=_shortened(card.headline, SHORT_CHARS_MAX))
    return _longest(card.detail, lambda text: replace(short, detail=text), fits)


def _longest(text: str, made: Callable[[str], Card], fits: FitsIn) -> Card:
    """Return the card with the longest prefix of this text that fits."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(made(_shortened(text, middle))) else (low, middle - 1)
    return made(_shortened(text, low))


def _shortened(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else f"{text[:chars_max]}…"


def _decision(ask: AskStatus) -> str:
    by = f" by {ask.by}" if ask.by else ""
    match ask.state:
        case "answered" if isinstance(ask.asked, e.ApprovalAsked):
            return f"{_DECIDED.get(ask.answer, ask.answer)}{by}"
        case "answered":
            return f"✓ Answered{by}: {safe(ask.answer)[:500]}"
        case "expired":
            return "✗ Expired: no one answered in time"
        case _:
            return "✗ No longer needed"


def _listed_text(ask: AskStatus) -> str:
    assert isinstance(ask.asked, e.ApprovalAsked), "only actions are listed"
    return "\n".join([_detail(ask.asked), *_about(ask.asked)])


def _fenced(text: str) -> str:
    """Fence a text in markdown so that nothing in it can end the block."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
