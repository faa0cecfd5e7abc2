"""Text that arrives in pieces."""

_JOINED_AT_ONCE = 256


class Gathered:
    """Text that arrives in pieces and is joined when read; past `chars_max` only its end is kept."""

    __slots__ = ("_chars", "_joined", "_pieces", "chars_max", "total_chars")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, chars_max: int = 0) -> None:
        self.chars_max = chars_max
        self.total_chars = 0
        self._chars = 0
        self._pieces: list[str] = []
        self._joined = 0  # how many pieces, counted from the first, are long

    def add(self, text: str) -> None:
        """Add more of the text."""
        pieces = self._pieces
        pieces.append(text)
        if len(pieces) - self._joined >= _JOINED_AT_ONCE:
            # A short string takes several times the memory of its characters.
            pieces[self._joined :] = ["".join(pieces[self._joined :])]
            self._joined += 1
        size = len(text)
        self.total_chars += size
        self._chars += size
        # cutting at twice the limit keeps the cost per piece constant
        if self.chars_max and self._chars > 2 * self.chars_max:
            self._pieces = [str(self)]
            self._joined = 0
            self._chars = self.chars_max

    def put(self, text: str) -> None:
        """Replace what was gathered with the whole text."""
        self._pieces = []
        self.total_chars = self._chars = self._joined = 0
        self.add(text)

    def __str__(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
            self._joined = 0
        text = self._pieces[0] if self._pieces else ""
        return text[-self.chars_max :] if self.chars_max else text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Gathered):
            return NotImplemented
        return self.total_chars == other.total_chars and str(self) == str(other)

    def __repr__(self) -> str:
        return f"Gathered({str(self)!r})"
