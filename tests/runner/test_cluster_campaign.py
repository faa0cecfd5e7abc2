"""A short campaign against several servers with one database; bench/faults_cluster.py runs long ones."""

from pathlib import Path

import pytest

from runner.cluster_campaign import ClusterCampaign, told

ROUNDS = (
    ("kill_in_mid_run", "cut_appends", "drain"),
    ("freeze", "restart_database", "late_statements"),
)


@pytest.mark.long
async def test_every_promise_holds_for_outside_witnesses_whatever_happens_to_several_servers(
    tmp_path: Path,
) -> None:
    """P1, P2, P4, P6, P7, P8: also with several servers on one database, whichever of them breaks."""
    campaign = ClusterCampaign(tmp_path, seed=12)
    findings = await campaign.run(lambda faults: faults.break_in_turn(ROUNDS))
    assert not findings.broken, told(campaign, findings)
    assert findings.resumed
