"""Thousands of requests at once at every limit of a server; see tests/server/transport/bursts.py.

python bench/bursts.py --size 3000 --seed 1
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    tests = Path(__file__).parents[1] / "tests"
    sys.path.insert(0, str(tests))
    runpy.run_path(str(tests / "server" / "bursts.py"), run_name="__main__")
