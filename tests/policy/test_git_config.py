"""Git's configuration syntax is read as git reads it."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.policy.git_config import ENTRIES_MAX, BadGitConfig, Setting, read_git_config

# fmt: off
TOKENS = st.sampled_from((
    "[", "[core]", '[diff "a"]', '[filter "a.B\\"c"]', "[Diff.Ext]", "\n", "\n", "\n", " ", "=", " = ", "a",
    "fsMonitor", "x-y", '"', "\\", "\\n", '\\"', "\\\n", "#", "; c", "true", "./evil", "\r\n", "\r", '"a b"',
    "é", "9", "_", '[x "q\\z"]', "\\x", "\v", "[core] k=v", "[ core]", "[core ]", '[a "b" ]', '[a"b"]',
))
# fmt: on


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TOKENS, max_size=12).map("".join))
def test_what_git_reads_is_what_is_read_here(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text("[core]\n" + text, newline="")
    listed = subprocess.run(
        ["git", "config", "--file", file, "--list", "-z"], capture_output=True, check=False
    )
    try:
        found = read_git_config(file.read_bytes())
    except BadGitConfig:
        assert listed.returncode != 0
        return
    assert listed.returncode == 0
    entries = [entry.partition("\n") for entry in listed.stdout.decode().split("\0")[:-1]]
    assert [(one.key, _alike(one.value)) for one in found] == [
        (key, _alike(value) if between else None) for key, between, value in entries
    ]


def _alike(value: str | None) -> str | None:
    """The value with each blank as a space: versions of git differ in what they make of one inside."""
    return None if value is None else value.replace("\t", " ").replace("\r", " ")


def test_parts_have_a_case_and_the_rest_has_none() -> None:
    found = read_git_config(
        b'\xef\xbb\xbf[FILTER "Lfs"] Clean = "a;b" # c\n[Diff.TEXT]\ntextConv\n', file="f"
    )
    assert found == (
        Setting("filter", "Lfs", "clean", "a;b", "f"),
        Setting("diff", "text", "textconv", None, "f"),
    )
    assert [one.key for one in found] == ["filter.Lfs.clean", "diff.text.textconv"]


def test_a_value_is_yes_no_or_neither() -> None:
    meanings: dict[str | None, bool | None] = {
        **dict.fromkeys((None, "Yes", "on", "1", "9" * 5_000), True),
        **dict.fromkeys(("0", "-00", "", "off"), False),
        "x": None,
    }
    assert {value: Setting("core", "", "fsmonitor", value).boolean for value in meanings} == meanings


def test_what_git_refuses_is_refused() -> None:
    for text in (b"a = b", b'[a]\nb = "', b"[a]\nb c", b"[a]\n\0", b"[a b]"):
        with pytest.raises(BadGitConfig):
            assert not read_git_config(text), text


def test_a_file_has_a_bound() -> None:
    with pytest.raises(BadGitConfig):
        read_git_config(b"[a]\n" + b"b\n" * (ENTRIES_MAX + 1))
