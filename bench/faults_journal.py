"""Kill a writing process at many seeded moments; see tests/journal/kill_cycles.py.

python bench/faults_journal.py --cycles 200
"""

import runpy
from pathlib import Path

if __name__ == "__main__":
    script = Path(__file__).parents[1] / "tests" / "journal" / "kill_cycles.py"
    runpy.run_path(str(script), run_name="__main__")
