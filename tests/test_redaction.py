"""No secret gets out, however it is cut into pieces."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import events as e
from holdfast.codec import encode
from holdfast.redaction import MARK, Redactor, StreamFilter, is_like_key, without_keys
from holdfast.values import Failure

KEYS = ("sk-abcabcd", "abcabcabx", "key-sk-abcabcd-long", "abcabcabxyd")


@given(st.lists(st.one_of(st.text("abcdkxsy-", max_size=12), st.sampled_from(KEYS)), max_size=12))
def test_a_secret_is_caught_wherever_the_pieces_are_cut(pieces: list[str]) -> None:
    """P11: also when a key is split over two deltas, or one byte at a time."""
    whole = "".join(pieces)
    for cut in (pieces, list(whole)):
        stream = StreamFilter(Redactor(KEYS))
        shown = "".join([*map(stream.feed, cut), stream.flush()])
        assert not any(key in shown for key in KEYS)
        if not any(key in whole for key in KEYS):
            assert shown == whole


@pytest.mark.parametrize(
    ("keys", "whole", "expected"),
    [
        (("abcdef", "abcdefghij"), "x abcdefghij y", f"x {MARK} y"),
        (("abcdef", "zzabcdefyy"), "x zzabcdefyy y", f"x {MARK} y"),
        (("abcdef", "abcdefghij"), "x abcdefgh y", f"x {MARK}gh y"),
        (("abcdef", "abcdefghij"), "x abcdef", f"x {MARK}"),
        (("abcdef", "abcdefghij", "xxabcdef"), "xxabcdef y", f"{MARK} y"),
        (("abcabc", "abcabcd"), "abcabcabcabcd", f"{MARK}{MARK}"),
    ],
)
def test_a_secret_that_begins_or_holds_another_goes_whole(
    keys: tuple[str, ...], whole: str, expected: str
) -> None:
    """P11: wherever it is cut, and however often."""
    cuts = [[whole[:at], whole[at:]] for at in range(len(whole) + 1)]
    for cut in (*cuts, list(whole)):
        stream = StreamFilter(Redactor(keys))
        assert "".join([*map(stream.feed, cut), stream.flush()]) == expected


def test_text_without_a_secret_is_shown_at_once() -> None:
    stream = StreamFilter(Redactor(KEYS))
    assert stream.feed("hello ") == "hello "
    assert stream.feed("hello sk-ab") == "hello "
    assert stream.feed("out") == "sk-about"
    assert StreamFilter(Redactor()).feed("sk-ab") == "sk-ab"


def test_an_event_is_cleaned_wherever_the_secret_stands() -> None:
    """P11: in errors, arguments and results alike."""
    secrets = Redactor(["sk-abcabcd", "short"])
    asked = e.ToolAsked(
        at_ms=1, run_id="r", tool_call_id="t", name="shell", args={"command": ["echo", "sk-abcabcd"]}
    )
    cleaned = secrets.redact(asked)
    assert isinstance(cleaned, e.ToolAsked)
    assert cleaned.args == {"command": ["echo", MARK]}
    failure = Failure(kind="auth", text="key sk-abcabcd is wrong")
    ended = e.RunEnded(at_ms=1, run_id="r", outcome="failed", failure=failure, trace=("sk-abcabcd",))
    assert "sk-abcabcd" not in str(secrets.redact(ended))
    harmless = e.RunResumed(at_ms=1, run_id="r", after="short")
    assert secrets.redact(harmless) is harmless
    assert Redactor().redact(ended) is ended


def test_an_event_is_encoded_as_it_is_stored() -> None:
    """P11: escaped first, so that no text keeps a secret from being found."""
    asked = e.ToolAsked(
        at_ms=1, run_id="r", tool_call_id="t", name="x", args={"a": "sk-abcabcd", "b": "\udcff"}
    )
    stored, body = Redactor(["sk-abcabcd"]).stored(asked)
    assert isinstance(stored, e.ToolAsked)
    assert stored.args == {"a": MARK, "b": "\\udcff"}
    assert body == encode(stored)


def test_a_secret_with_a_quote_and_a_backslash_is_cleaned_out_of_events_too() -> None:
    """P11: JSON writes both of them in another way."""
    secret = 'pa"ss\\word'  # noqa: S105 - it is to be seen nowhere
    told = e.ToolOutput(at_ms=1, run_id="r", tool_call_id="t", text=f"it is {secret}.")
    cleaned = Redactor([secret]).redact(told)
    assert isinstance(cleaned, e.ToolOutput)
    assert cleaned.text == f"it is {MARK}."


def test_bytes_are_cleaned_and_others_stay_the_same() -> None:
    secrets = Redactor(KEYS)
    assert secrets.redact_bytes(b"\xff sk-abcabcd \x00") == b"\xff " + MARK.encode() + b" \x00"
    assert secrets.redact_bytes(b"\xff") == b"\xff"


@pytest.mark.parametrize("secret", ["sk-plain-0123456789", 'pa"ss/wo\\rd', "schl\u00fcssel\U0001f511x"])
def test_a_secret_is_cleaned_out_of_json_however_it_is_escaped(secret: str) -> None:
    """P11: by numbers, behind backslashes, and in JSON inside of JSON."""
    numbered = "".join(f"\\u{ord(char):04X}" if ord(char) < 0x10000 else char for char in secret)
    spellings = [
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(secret)[1:-1].replace("/", "\\/"),
        json.dumps(json.dumps(secret))[3:-3],
        numbered,
        numbered[:6].lower() + json.dumps(secret[1:])[1:-1],
    ]
    for spelling in spellings:
        cleaned = Redactor([secret]).redact_bytes(f'{{"error": "wrong key {spelling}!"}}'.encode())
        assert cleaned == f'{{"error": "wrong key {MARK}!"}}'.encode(), spelling


def test_an_event_stays_readable_where_a_letter_of_a_secret_stands_behind_a_line_break() -> None:
    """P11: in JSON the break is written with an n, which is not the secret's."""
    said = e.TextDone(at_ms=1, run_id="r", segment=0, text="line\nabcdefgh")
    assert Redactor(["nabcdefgh"]).redact(said) == said


def test_a_secret_with_a_quote_is_found_in_arguments_that_are_kept_as_text() -> None:
    """P11."""
    asked = e.ToolAsked(
        at_ms=1, run_id="r", tool_call_id="t", name="n", args={}, bad_args='{"key": "a\\"bcdefg'
    )
    cleaned = Redactor(['a"bcdefg']).redact(asked)
    assert isinstance(cleaned, e.ToolAsked)
    assert cleaned.bad_args == '{"key": "[redacted]'


def test_what_is_formed_like_a_key_is_removed_from_texts_that_only_people_read() -> None:
    """P11: nobody told us the key, but its form gives it away; names with dashes stay."""
    keys = (
        "sk-proj-a1B2c3D4e5F6g7H8i9",
        "hf-TDzVN6sZCUWC8Pd7TKf9Ajxz",
        "AIzaSyA1234567890abcdefg",
        "ghp_" + "a1" * 18,
    )
    for key in keys:
        assert without_keys(f"Run not found: {key}.") == "Run not found: [redacted]."
        assert is_like_key(key)
    for name in (
        "sk-my-long-branch-name-without-number",
        "task-sk-a1B2c3D4e5F6g7H8i9",
        "sk-short1",
        "run_9f8e7d6c5b4a3210ffff",
    ):
        assert without_keys(name) == name


def test_a_redactor_with_further_secrets_leaves_the_first_as_it_was() -> None:
    """P11."""
    known = Redactor(["first-secret"])
    assert known.also(["first-secret", "", "short"]) is known
    both = known.also(["second-secret"])
    assert both.redact_text("first-secret second-secret") == "[redacted] [redacted]"
    assert known.redact_text("first-secret second-secret") == "[redacted] second-secret"
