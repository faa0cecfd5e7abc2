"""A short fault campaign; bench/faults_server.py runs long ones."""

from pathlib import Path

from runner.campaign import Campaign, told

CYCLES = 3


async def test_every_promise_holds_for_outside_witnesses_whenever_the_server_is_killed(
    tmp_path: Path,
) -> None:
    """P1, P2, P4, P6, P7, P8: nothing accepted or shown is lost, no effect happens twice, every run ends."""
    campaign = Campaign(tmp_path, seed=7)
    findings = await campaign.run(CYCLES)
    assert not findings.broken, told(campaign, findings)
    assert findings.runs > CYCLES
