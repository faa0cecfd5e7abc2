"""Break servers that share one Postgres at many seeded moments; see tests/runner/cluster_campaign.py.

python bench/faults_cluster.py --seconds 600 --seed 1
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    tests = Path(__file__).parents[1] / "tests"
    sys.path.insert(0, str(tests))
    runpy.run_path(str(tests / "runner" / "cluster_campaign.py"), run_name="__main__")
