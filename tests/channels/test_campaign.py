"""A short campaign on each platform; `bench/faults_channels.py` runs long ones."""

from pathlib import Path

import pytest

from channels.campaign import Campaign, campaign_of
from channels.sides import SIDES


@pytest.mark.long
@pytest.mark.parametrize("platform", list(SIDES))
async def test_nothing_is_lost_or_silently_repeated_while_the_server_is_killed(
    platform: str, tmp_path: Path
) -> None:
    """P14, P6: the fake's own record is compared with what was asked."""
    campaign = Campaign(chats=3, messages=4, seed=7, kills_max=4, platform=platform)
    await campaign_of(campaign, tmp_path)
    assert campaign.kills > 0
