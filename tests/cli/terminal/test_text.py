"""Text on its way to a terminal: nothing in it is obeyed, and each block is printed once."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.terminal.screen import Screen
from holdfast.cli.chat.commands import COMMANDS, KEYS, help_text
from holdfast.cli.terminal.blocks import CODE_LINES_MAX, Block, BlockCutter
from holdfast.cli.terminal.columns import fitted
from holdfast.cli.terminal.renderer import AGAIN, AnswerText
from holdfast.cli.terminal.style import Style, without_padding
from holdfast.safe_text import columns_of, cut, exact, safe, safe_line

SEQUENCES = [
    "\x1b[31m",
    "\x1b]0;title\x07",
    "\x1b]52;c;aGk=\x1b\\",
    "\x1b[2J",
    "\x9b1m",
    "\x1bc",
    "\x1b(B",
    "\x1bP1$r\x9c",
]
TEXT = "A para\nof two lines.\n\n```python\nx = 1\n\ny = 2\n```\nAfter it.\n\n~~~\nplain\n~~~\n\n- a\n- b"


def style() -> Style:
    return Style(lambda: 60)


@given(st.text() | st.lists(st.sampled_from([*SEQUENCES, "words", "\n", "\t", "\u202e"])).map("".join))
def test_nothing_that_a_terminal_obeys_is_left_in_safe_text(text: str) -> None:
    """P11: what a model or a tool says is shown, never obeyed."""
    assert all(char in "\n\t" or (ord(char) >= 32 and not 0x7F <= ord(char) <= 0x9F) for char in safe(text))
    assert "\n" not in safe_line(text)
    assert all(char == "\n" or char.isprintable() for char in exact(text))


def test_what_nobody_sees_is_written_out() -> None:
    """P8: an action that is approved has no words that look like nothing."""
    unseen = "\u034f\u115f\u1160\u17b4\u17b5\u180b\u2800\u3164\ufe0f\uffa0\ufffc\U0001d159\U000e0100\u200b"
    assert all(one not in exact(f"rm {unseen} x") for one in unseen)
    assert exact("rm\u3164x ü 漢") == "rm\\u3164x ü 漢"


def test_sequences_go_whole_and_the_words_around_them_stay() -> None:
    for sequence in SEQUENCES:
        assert safe(f"a{sequence}b") == "ab", repr(sequence)
    assert safe("kept\r\nas lines\x00") == "kept\nas lines"
    assert safe_line("a  long\nline", 6) == "a lon…"


def test_an_exact_text_shows_what_would_lurk() -> None:
    """P8: a person decides about what is there, not about what a terminal makes of it."""
    assert exact("rm \x1b[8m-rf /\x1b[0m\t\u202ex") == "rm \\x1b[8m-rf /\\x1b[0m\\t\\u202ex"


def test_nothing_of_what_a_model_wrote_is_lost_on_the_screen() -> None:
    screen = Screen(60)
    screen.write(style().block(Block("# A Vec<T>\n![alt](http://i) <b>x</b> [l](http://l)")))
    assert screen.text == "A Vec<T>\n\n[image: alt] (http://i) <b>x</b> l (http://l)"


@given(st.lists(st.sampled_from(["   ", "\x1b[1m", "\x1b[0m", "x", "\n"]), max_size=30))
def test_padding_at_the_end_of_lines_goes_and_nothing_else(pieces: list[str]) -> None:
    screen, trimmed = Screen(10_000), Screen(10_000)
    screen.write("".join(pieces))
    trimmed.write(without_padding("".join(pieces)))
    assert trimmed.text == screen.text


@pytest.mark.parametrize(
    "text", [" " * 100_000 + "x", "``` " + " " * 100_000 + "`", "[" * 100_000, "word " * 20_000]
)
def test_hostile_text_is_shown_in_time(text: str) -> None:
    """P10: what a model writes cannot hold the terminal up; the time limit of the suite is the judge."""
    assert style().block(Block(text))
    assert style().rendered(text)
    whole(text)


def whole(text: str) -> list[Block]:
    cutter = BlockCutter()
    return [*cutter.feed(text), *cutter.end()]


@given(st.lists(st.integers(0, len(TEXT)), max_size=12))
def test_blocks_are_the_same_wherever_the_text_is_cut(places: list[int]) -> None:
    cutter, blocks, at = BlockCutter(), list[Block](), 0
    for place in sorted(places):
        blocks += cutter.feed(TEXT[at:place])
        at = place
        assert "```" not in cutter.rest.text
    assert [*blocks, *cutter.feed(TEXT[at:]), *cutter.end()] == whole(TEXT)


def test_paragraphs_and_code_are_settled_each_by_its_own_rule() -> None:
    assert whole(TEXT) == [
        Block("A para\nof two lines."),
        Block("x = 1\n\ny = 2", "python"),
        Block("After it."),
        Block("plain", ""),
        Block("- a\n- b"),
    ]
    code = "".join(f"line {number}\n" for number in range(CODE_LINES_MAX + 1))
    assert len(whole(f"```\n{code}```")) == 2
    cutter = BlockCutter()
    assert cutter.feed("```py\nx = 1\n") == []
    assert cutter.rest == Block("x = 1", "py")


def test_an_answer_is_on_the_screen_once_however_it_comes() -> None:
    text, printed = AnswerText(style()), ""
    for letter in TEXT:
        printed += text.add(letter)
    printed += text.end()
    screen = Screen(60)
    screen.write(printed)
    assert [line for line in screen.lines if line] == [
        "A para of two lines.",
        "  x = 1",
        "  y = 2",
        "After it.",
        "  plain",
        " • a",
        " • b",
    ]


def test_a_new_attempt_that_begins_alike_goes_on_unseen() -> None:
    """P9: the recovery of an answer leaves no mark on it."""
    text = AnswerText(style())
    shown = text.add("First.\n\nSecond, and ha")
    text.supersede()
    assert "Second, and ha" in text.live, "what was read stays until as much is said again"
    assert text.add("First.\n\nSecond") == ""
    text.supersede()
    assert "Second, and ha" in text.live
    assert text.add("First.\n\nSecond, and half") == ""
    assert "half" in text.live
    shown += text.end()
    screen = Screen(60)
    screen.write(shown)
    assert screen.text == "First.\n\nSecond, and half"


def test_a_new_attempt_that_says_something_else_is_shown_whole_below_a_line() -> None:
    text = AnswerText(style())
    shown = text.add("Alike.\n\nFirst.\n\nSec")
    text.supersede()
    shown += text.add("Alike.\n\nOther") + text.end()
    screen = Screen(60)
    screen.write(shown)
    assert screen.text == f"Alike.\n\nFirst.\n\n{AGAIN}\n\nAlike.\n\nOther"
    text = AnswerText(style())
    shown = text.add("One.\n\nTwo.\n\n")
    text.supersede()
    shown += text.add("One.") + text.end()
    screen = Screen(60)
    screen.write(shown)
    assert screen.text == f"One.\n\nTwo.\n\n{AGAIN}\n\nOne."


@pytest.mark.parametrize("room", [0, 100, 80, 60, 40])
def test_a_list_loses_no_column_however_narrow_the_terminal_is(room: int) -> None:
    head = ["RUN", "STATUS", "STARTED", "TOOK", "ABOUT"]
    row = ["run_" + "a" * 32, "completed", "2026-11-15 19:14", "0:00:03", "tidy up the attic"]
    lines = fitted([head, row], room)
    assert not room or max(map(len, lines)) <= room
    words = " ".join(lines).split()
    assert [word for word in words if word not in head] == " ".join(row).split()
    assert words[:4] == head[:4]


def test_letters_of_two_columns_keep_a_list_in_line_and_are_cut_where_the_room_ends() -> None:
    rows = [["NAME", "ADDED"], ["鍵その一", "today"], ["laptop", "today"], ["👩‍🚀", "today"]]
    lines = fitted(rows, 80)
    assert len({columns_of(line[: line.rindex("today")]) for line in lines[1:]}) == 1
    for room in range(1, 12):
        assert columns_of(cut("日本語のタイトル", room)) <= room
        assert cut("日本語のタイトル", room).endswith("…")
    assert cut("日本語", 6) == "日本語"
    assert safe_line("日本語\nの", 5) == "日本…"


@pytest.mark.parametrize("begin", ["", "  ", "  · ", "■ "])
def test_a_wrapped_line_is_indented_like_its_first_and_loses_no_word(begin: str) -> None:
    words = " ".join(f"word{number}" for number in range(40))
    first, *rest = Style(lambda: 40).line(begin + words).splitlines()
    assert first.startswith(begin + "word0")
    assert rest
    assert all(line.startswith(" " * len(begin) + "word") and len(line) <= 40 for line in rest)
    assert " ".join([first, *rest]).split() == (begin + words).split()


@pytest.mark.parametrize("width", [24, 40, 60])
def test_the_lines_of_the_help_that_wrap_stay_out_of_the_column_of_names(width: int) -> None:
    screen = Screen(width)
    screen.write(help_text(Style(lambda: width)))
    *tables, _ = screen.text.split("\n\n")
    names = [name.split()[0].rstrip(",") for name, _ in (*COMMANDS, *KEYS)]
    begun = [
        line.split()[0].rstrip(",") for line in "\n".join(tables).splitlines() if not line.startswith(" ")
    ]
    assert begun == names


def test_at_40_columns_what_the_keys_do_is_a_column_of_its_own() -> None:
    screen = Screen(40)
    screen.write(help_text(Style(lambda: 40)))
    (at,) = (at for at, line in enumerate(screen.lines) if line.startswith("Tab, @"))
    about = screen.lines[at].index("complete")
    assert screen.lines[at + 1].index("name a file") == about


EVERY_KIND = (
    "# A heading\n\nSome **bold**, *slanted* and `code`, a [link](http://example.com/x).\n\n| a | b |\n"
    "|---|---|\n| 1 | 2 |\n\n- one\n  1. two\n\n> quoted\n\n---\n\n    indented = 1\n"
)
CODE = '@wraps\nclass A:\n    """Text."""\n    def f(self, x=1.5) -> str:\n        return f"{x}"  # why\n'


def test_an_answer_is_readable_on_a_dark_and_on_a_light_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """No background of its own, no bright colour and no yellow."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    style = Style(lambda: 80)
    blocks = [Block(EVERY_KIND), Block(CODE, "python"), Block("-old\n+new\n@@ -1 +1 @@\n", "diff")]
    shown = "".join(style.block(block) for block in blocks)
    sequences = ";".join(re.findall(r"\x1b\[([0-9;]*)m", shown))
    used = {int(code) for code in sequences.split(";") if code}
    assert {35, 32, 36} <= used, "there are colours"
    assert not used & {33, 40, 48, *range(41, 48), *range(90, 108)}
