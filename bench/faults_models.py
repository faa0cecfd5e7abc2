"""Kill server and model in any order, and set the clock in every state; see tests/runner/model_campaign.py.

python bench/faults_models.py --cycles 100 --seed 1
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    tests = Path(__file__).parents[1] / "tests"
    sys.path.insert(0, str(tests))
    runpy.run_path(str(tests / "runner" / "model_campaign.py"), run_name="__main__")
