"""A near miss: the part of a file that is most like a text that isn't in it, for an edit that failed."""

from difflib import SequenceMatcher
from itertools import islice

LINES_MAX = 20_000  # of the file that are compared
LINE_CHARS_MAX = 300
SHOWN_LINES_MAX = 30
SIMILAR = 0.6
SPACES = "It's there with other spaces or indentation"
CLOSEST = "This is the closest text"
NOTHING = "Nothing in the file is similar. Read it again."


def near_miss(text: str, old: str) -> str:
    """Describe the closest part of the text, with its lines as they are."""
    lines, wanted = text.splitlines()[:LINES_MAX], old.splitlines()
    if not any(map(str.strip, wanted)):
        return NOTHING
    start, head = _but_for_spaces(lines, wanted), SPACES
    if start < 0:
        start, head = _similar(lines, wanted), CLOSEST
    if start < 0:
        return NOTHING
    shown = lines[start : start + min(len(wanted), SHOWN_LINES_MAX)]
    last = start + len(shown)
    where = f"at line {last}" if len(shown) == 1 else f"at lines {start + 1} to {last}"
    return "\n".join([f"{head}, {where}:", *(line[: 4 * LINE_CHARS_MAX] for line in shown)])


def _but_for_spaces(lines: list[str], wanted: list[str]) -> int:
    """Return where all lines are the same but for their spaces; -1 if nowhere."""
    plain, sought = [_plain(line) for line in lines], [_plain(line) for line in wanted]
    for start in range(len(plain) - len(sought) + 1):
        if plain[start] == sought[0] and plain[start : start + len(sought)] == sought:
            return start
    return -1


def _plain(line: str) -> str:
    return " ".join(line.split())


def _similar(lines: list[str], wanted: list[str]) -> int:
    """Return where the lines are most similar: around the one that is most like the longest wanted one."""
    anchor = max(range(len(wanted)), key=lambda n: len(wanted[n].strip()))
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[anchor].strip()[:LINE_CHARS_MAX])
    best, found = SIMILAR, -1
    for number, line in enumerate(islice(lines, LINES_MAX)):
        matcher.set_seq1(line.strip()[:LINE_CHARS_MAX])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
            best, found = matcher.ratio(), number
    return max(0, found - anchor) if found >= 0 else -1
