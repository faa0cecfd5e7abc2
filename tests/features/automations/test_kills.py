"""A short campaign against servers with triggers; bench/faults_triggers.py runs long ones."""

from pathlib import Path

import pytest

from features.automations.campaign import TriggerCampaign, told
from features.automations.checks import Rhythm, TriggerFindings, check_instants
from features.automations.world import AT_MS
from holdfast.features.automations.events import (
    TriggerCreated,
    TriggerDue,
)
from holdfast.features.automations.values import EveryTimes, TriggerSettings

KILLS = 3
SETTINGS = TriggerSettings(name="t", when=EveryTimes(seconds=1), prompt="go")


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_each_instant_and_delivery_has_one_record_though_the_server_is_killed(tmp_path: Path) -> None:
    """P14: real kills of a real process."""
    campaign = TriggerCampaign(tmp_path, seed=7)
    findings = await campaign.run(KILLS)
    assert not findings.broken, told(campaign, findings)
    assert findings.instants
    assert findings.deliveries


@pytest.mark.parametrize(
    ("dues", "said"), [((1, 2, 3), ""), ((1, 3), "never decided"), ((1, 2, 2), "decided twice")]
)
def test_the_campaign_notices_an_instant_that_is_lost_or_comes_twice(
    dues: tuple[int, ...], said: str
) -> None:
    """P14: the proof can fail."""
    findings = TriggerFindings()
    made = TriggerCreated(at_ms=AT_MS, settings=SETTINGS)
    check_instants(findings, "t", [made, *map(due, dues)], Rhythm(1_000))
    assert bool(findings.broken) == bool(said)
    assert said in "".join(findings.broken)


def due(nth: int) -> TriggerDue:
    return TriggerDue(
        at_ms=AT_MS,
        key=f"at/{nth}",
        due_at_ms=AT_MS + 1000 * nth,
        session_id="s",
        message_id=f"m{nth}",
        run_id=f"r{nth}",
    )
