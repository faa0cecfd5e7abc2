"""Short bursts at every limit; bench/bursts.py sends thousands."""

from pathlib import Path

import pytest

from server.transport.bursts import BURSTS

SIZE = 90  # a session's queue takes 50


@pytest.mark.parametrize("name", BURSTS)
async def test_a_limit_holds_exactly_however_many_come_at_once(name: str, tmp_path: Path) -> None:
    """P2, P10, P12: whoever is refused leaves nothing behind, and what was accepted comes to its end."""
    await BURSTS[name](SIZE, 7, tmp_path)  # each burst asserts what it sees
