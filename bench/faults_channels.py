"""Kill a real server at seeded moments while people talk to it (see tests/features/channels/campaign.py).

python bench/faults_channels.py --platform slack --chats 20 --messages 10 --seed 1
"""

import runpy
import sys
from pathlib import Path

if __name__ == "__main__":
    tests = Path(__file__).parents[1] / "tests"
    sys.path.insert(0, str(tests))
    runpy.run_path(str(tests / "features" / "channels" / "campaign.py"), run_name="__main__")
