"""Kill a real server at many seeded moments under a mix of runs; see tests/runner/campaign.py.

python bench/faults_server.py --cycles 500 --seed 1
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    tests = Path(__file__).parents[1] / "tests"
    sys.path.insert(0, str(tests))
    runpy.run_path(str(tests / "runner" / "campaign.py"), run_name="__main__")
