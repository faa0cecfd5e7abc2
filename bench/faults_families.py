"""Kill a tree of sub-agents at every append; see tests/features/delegation/family_campaign.py.

python bench/faults_families.py --step 1
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    tests = Path(__file__).parents[1] / "tests"
    sys.path.insert(0, str(tests))
    runpy.run_path(str(tests / "features" / "delegation" / "family_campaign.py"), run_name="__main__")
