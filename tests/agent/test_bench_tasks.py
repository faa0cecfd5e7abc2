"""The tasks of bench/tasks.py pass with their scripted answers, which proves files, checks and harness."""

import asyncio
import re
import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "bench"
OVERHEAD_BYTES_MAX = 8_000


async def test_the_scripted_tasks_pass_with_a_stable_beginning_of_at_most_8_kb() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(BENCH / "tasks.py"), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    table = output.decode()
    assert process.returncode == 0, table
    rows = re.findall(r"^(\w+) +passed +\d+ +[\d,]+ +([\d,]+)  (.*)$", table, re.MULTILINE)
    assert [name for name, _, _ in rows] == sorted(path.stem for path in (BENCH / "tasks").glob("*.toml"))
    assert len(rows) == 15
    assert max(int(overhead.replace(",", "")) for _, overhead, _ in rows) <= OVERHEAD_BYTES_MAX
    changed = {name: prefix for name, _, prefix in rows if prefix != "stable"}
    assert changed == {"overflowing_context": "changed: compaction"}
