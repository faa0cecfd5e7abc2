"""Kill a writing process at many seeded moments and hold the journal against what was shown (P1).

python bench/faults_journal.py --cycles 200
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from journal.kill_cycles import Witness, check_journal, write_until_killed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    began = time.monotonic()
    witness = Witness()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        for cycle in range(options.cycles):
            write_until_killed(path, witness, seed=options.seed + cycle)
            kept = asyncio.run(check_journal(path, witness))
            print(f"\r{cycle + 1} kills, {len(witness.shown)} events shown, {kept} kept", end="", flush=True)
    print(f"\nnothing that was shown was taken back ({time.monotonic() - began:.0f} s)")


if __name__ == "__main__":
    main()
