"""The golden logs still read, fold and write as they did."""

from pathlib import Path

import msgspec
import pytest

from folds.golden import GOLDEN, LOGS, expected, picture, read
from holdfast.codec import UnreadableEvent, decode, encode, native_frame
from holdfast.folds import session as sessions
from holdfast.folds import transcript as transcripts


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_a_golden_log_looks_as_expected(path: Path) -> None:
    assert picture(read(path)) == msgspec.json.decode(expected(path).read_bytes())


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_every_prefix_of_a_golden_log_folds_and_a_replay_changes_nothing(path: Path) -> None:
    log = read(path)
    for length in range(len(log) + 1):
        session, transcript = sessions.fold(log[:length]), transcripts.fold(log[:length])
        for seq, event in log:
            sessions.apply(session, seq, event)
            transcripts.apply(transcript, seq, event)
        assert session == sessions.fold(log)
        assert transcript == transcripts.fold(log)


@pytest.mark.parametrize(
    "path", [path for path in LOGS if path.stem != "older_versions"], ids=lambda path: path.stem
)
def test_events_are_still_written_as_in_the_golden_log(path: Path) -> None:
    for line, (seq, event) in zip(path.read_bytes().splitlines(), read(path), strict=True):
        assert native_frame(seq, encode(event)) == b"id: %d\ndata: %b\n\n" % (seq, line)


def test_an_older_version_is_unreadable_without_its_upcast() -> None:
    lines = (GOLDEN / "older_versions.jsonl").read_bytes().splitlines()
    with pytest.raises(UnreadableEvent, match=r"can't read version 0 of text.delta"):
        decode(lines[5])
