"""Kill servers with triggers at many seeded moments; see tests/runner/trigger_campaign.py.

python bench/faults_triggers.py --kills 100 --seed 1
python bench/faults_triggers.py --kills 100 --seed 1 --nodes 3
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    tests = Path(__file__).parents[1] / "tests"
    sys.path.insert(0, str(tests))
    runpy.run_path(str(tests / "features" / "automations" / "campaign.py"), run_name="__main__")
