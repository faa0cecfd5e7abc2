"""A short campaign against server and model; bench/faults_models.py runs long ones."""

from pathlib import Path

from runner.model_campaign import ModelCampaign, told

CYCLES = 2


async def test_every_run_completes_in_whatever_order_server_and_model_die_and_come_back(
    tmp_path: Path,
) -> None:
    """P6, P1, P2: no effect happens twice, nothing seen is lost, and no run is given up."""
    campaign = ModelCampaign(tmp_path, seed=3, back_s=2.0)
    findings = await campaign.run(CYCLES)
    assert not findings.broken, told(campaign, findings)
    assert findings.runs > CYCLES
