"""A short campaign against the files of a data directory; bench/faults_files.py runs long ones."""

from pathlib import Path

import pytest

from runner.file_campaign import campaign, told

CYCLES = 4


@pytest.mark.long
async def test_nothing_is_lost_in_silence_whatever_other_programs_do_to_the_files(tmp_path: Path) -> None:
    """P1, P2, P3, P9: nothing accepted or shown is missing unless the server said so, and it never hangs."""
    done = await campaign(3, CYCLES, folder=tmp_path)
    broken = [told(cycle) for cycle in done if cycle.findings.broken]
    assert not broken, "\n".join(broken)
    assert sum(len(cycle.witness.sent) for cycle in done) > CYCLES
