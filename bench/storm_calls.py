"""A long storm of model calls: python bench/storm_calls.py --calls 1000 --seed 7.

The same storm as in the suite, longer. It ends with exit code 1 if anything did not hold.
"""

import argparse
import importlib
import logging
import sys
import time
from pathlib import Path
from typing import Any

import uvloop

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
storm: Any = importlib.import_module("models.calls.storm")


def main() -> int:
    """Run it and print what came of it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=1000)
    options.add_argument("--seed", type=int, default=1)
    given = options.parse_args()
    logging.getLogger("holdfast").setLevel(logging.ERROR)
    began_s = time.monotonic()
    found = uvloop.run(storm.storm(given.calls, seed=given.seed))
    took_s = time.monotonic() - began_s
    print(f"{given.calls} calls, {found.requests} requests, {took_s:.1f} s, seed {given.seed}")
    for outcome, count in found.outcomes.most_common():
        print(f"{count:6}  {outcome}")
    for wrong in found.wrong:
        print(f"WRONG: {wrong}")
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
