"""A list that a person chooses from: arrow keys, a filter that is typed, Enter and Esc."""

from collections.abc import Sequence

from msgspec import Struct

from holdfast.cli.asks import POINTER
from holdfast.safe_text import columns_of, cut, safe_line

ROWS_SHOWN = 12
MINUTE_S, HOUR_S, DAY_S = 60, 3_600, 86_400


class PickerRow(Struct, frozen=True):
    """One thing to choose: the line that chooses it, what it is called, and something beside that."""

    line: str
    text: str
    beside: str = ""

    def fits(self, words: Sequence[str]) -> bool:
        """Whether every word of the filter is in what is shown, or begins the id, which isn't."""
        there = f"{self.text} {self.beside}".casefold()
        named = self.line.rpartition(" ")[2].casefold()
        return all(word in there or named.startswith(word) for word in words)


class Picker:
    """The rows that fit the filter, one of them chosen."""

    def __init__(self, title: str, rows: Sequence[PickerRow]) -> None:
        self.title = title
        self._rows = rows
        self._filter = ""
        self._at = 0

    def fitting(self, typed: str) -> list[PickerRow]:
        """The rows that fit what is typed; another filter begins at its first row."""
        if typed != self._filter:
            self._filter, self._at = typed, 0
        words = typed.casefold().split()
        return [row for row in self._rows if row.fits(words)]

    def move(self, by: int, typed: str) -> None:
        """Choose the row below or above."""
        fitting = self.fitting(typed)
        self._at = max(0, min(len(fitting) - 1, self._at + by))

    def chosen(self, typed: str) -> str | None:
        """The line of the chosen row, if any row fits."""
        fitting = self.fitting(typed)
        return fitting[self._at].line if fitting else None

    def lines(self, typed: str, *, width: int, rows_max: int) -> list[str]:
        """The picker as lines, with the chosen row in sight."""
        fitting = self.fitting(typed)
        count = max(1, min(ROWS_SHOWN, rows_max))
        first = max(0, min(self._at - count // 2, len(fitting) - count))
        shown = [
            _row_line(row, width, is_chosen=at == self._at)
            for at, row in enumerate(fitting[first : first + count], first)
        ]
        about = f"{len(fitting)} of {len(self._rows)}" if typed.strip() else str(len(self._rows))
        head = f"\x1b[1m{self.title}\x1b[0m \x1b[2m({about})\x1b[0m"
        hint = "\x1b[2m↑ ↓ and Enter to open, type to filter, Esc to cancel\x1b[0m"
        return [head, *(shown or ["    No matches."]), hint]


def _row_line(row: PickerRow, width: int, *, is_chosen: bool) -> str:
    room = max(10, width - columns_of(row.beside) - 6)
    text = cut(safe_line(row.text), room)
    space = " " * max(2, width - 4 - columns_of(text) - columns_of(row.beside))
    if is_chosen:
        return f"\x1b[1;36m  {POINTER} {text}{space}{row.beside}\x1b[0m"
    return f"    {text}{space}\x1b[2m{row.beside}\x1b[0m"


def age(seconds: float) -> str:
    """How long ago, as people say it."""
    if seconds < MINUTE_S:
        return "just now"
    if seconds < HOUR_S:
        return f"{int(seconds // MINUTE_S)} min ago"
    if seconds < DAY_S:
        return f"{int(seconds // HOUR_S)} h ago"
    days = int(seconds // DAY_S)
    return "1 day ago" if days == 1 else f"{days} days ago"
