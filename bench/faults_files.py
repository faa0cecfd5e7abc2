"""Remove, cut and replace the files of a real server under load; see tests/runner/file_campaign.py.

python bench/faults_files.py --cycles 100 --seed 1
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    tests = Path(__file__).parents[1] / "tests"
    sys.path.insert(0, str(tests))
    runpy.run_path(str(tests / "runner" / "file_campaign.py"), run_name="__main__")
