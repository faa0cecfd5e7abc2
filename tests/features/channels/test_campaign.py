"""A short campaign on all platforms at once; `bench/faults_channels.py` runs long ones."""

from pathlib import Path

import pytest

from features.channels.campaign import Campaign, campaign_of
from features.channels.sides import SIDES


@pytest.mark.long
async def test_nothing_is_lost_or_silently_repeated_while_the_server_is_killed(tmp_path: Path) -> None:
    """P14, P6: the fakes' own records are compared with what was asked."""
    campaign = Campaign(chats=3, messages=4, seed=7, kills_max=4, platforms=list(SIDES))
    sides = await campaign_of(campaign, tmp_path)
    assert campaign.kills > 0
    assert {name.partition(":")[0] for name in campaign.faults} == {side.name for side in sides}
