"""The checker of the cluster campaign is honest: it finds what it looks for."""

from collections.abc import Sequence

import pytest

from holdfast import events as e
from holdfast.codec import encode
from holdfast.events import Event
from holdfast.interfaces.journal import Record
from runner.campaign_checks import Findings
from runner.campaign_users import Witness
from runner.cluster_checks import check_stops, check_texts

QUEUED = e.RunQueued(at_ms=1, run_id="r", message_id="m")
ATTEMPT = e.AttemptStarted(at_ms=1, run_id="r", call_id="c", attempt_id="a", target="t")
RESUMED = e.RunResumed(at_ms=1, run_id="r", after="crash")
STOP = e.StopRequested(at_ms=1, run_id="r", cause="user_stop")
ENDED = e.RunEnded(at_ms=1, run_id="r", outcome="cancelled")


def said(text: str) -> e.TextDelta:
    return e.TextDelta(at_ms=1, run_id="r", segment=1, text=text)


def findings_of(log: Sequence[Event]) -> list[str]:
    records = [Record("u-1", seq, encode(event), event) for seq, event in enumerate(log, 1)]
    findings, witness = Findings(), Witness(stopped={"r"})
    check_texts(findings, "u-1", records)
    check_stops(findings, witness, "u-1", records)
    return findings.broken


RIGHT = [QUEUED, ATTEMPT, said("u-1-1:0 u-1-1:1"), RESUMED, ATTEMPT, said("u-1-1:0"), STOP, ENDED]
WRONG: dict[str, list[Event]] = {
    "output of a dead server": [QUEUED, ATTEMPT, said("u-1-1:0"), RESUMED, said(" u-1-1:1"), STOP, ENDED],
    "two servers wrote": [QUEUED, ATTEMPT, said("u-1-1:0 "), said("u-1-1:0 "), said("u-1-1:1"), STOP, ENDED],
    "resumed after it was stopped": [QUEUED, ATTEMPT, STOP, RESUMED, ENDED],
    "the stop of r was lost": [QUEUED, ATTEMPT, said("u-1-1:0")],
}


def test_a_log_as_it_should_be_passes() -> None:
    assert findings_of(RIGHT) == []


@pytest.mark.parametrize("complaint", WRONG)
def test_a_wrong_log_is_found_out(complaint: str) -> None:
    assert any(complaint in text for text in findings_of(WRONG[complaint]))
