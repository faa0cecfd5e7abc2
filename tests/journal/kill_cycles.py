"""Kill a writing process again and again, and hold the journal against what its followers were shown (P1).

As a command: python bench/faults_journal.py --cycles 200
"""

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from zlib import crc32

from holdfast.interfaces.journal import Store
from stores import SqliteStore

CHILD = Path(__file__).with_name("writing_child.py")
LINES_BEFORE_KILL_MAX = 150


@dataclass
class Witness:
    """What was shown, by session and seq; a seq that is shown with two bodies is a lie."""

    shown: dict[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])

    def take(self, line: bytes) -> None:
        if not line.endswith(b"\n"):
            return  # cut by the kill
        session_id, seq, crc = line.decode().split()
        place = (session_id, int(seq))
        assert self.shown.setdefault(place, int(crc)) == int(crc), f"{place} was shown with two bodies"

    async def check(self, store: Store) -> int:
        """Everything shown is in the journal, in order, each seq once; how many events there are."""
        total = 0
        for session_id in sorted({session_id for session_id, _ in self.shown}):
            found: dict[int, int] = {}
            while records := await store.read(session_id, after=len(found)):
                for record in records:
                    assert record.seq == len(found) + 1, f"{session_id}: {record.seq} follows {len(found)}"
                    found[record.seq] = crc32(record.body)
            for (shown_in, seq), crc in self.shown.items():
                assert shown_in != session_id or found.get(seq) == crc, f"{session_id} {seq} was taken back"
            total += len(found)
        return total


def write_until_killed(path: Path, witness: Witness, *, seed: int) -> None:
    """One cycle: start a writer, read what it shows, kill -9 at a random line, read the rest."""
    chance = random.Random(seed)
    command = [sys.executable, str(CHILD), str(path), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for _ in range(chance.randrange(1, LINES_BEFORE_KILL_MAX)):
            witness.take(child.stdout.readline())
        child.kill()
        for line in child.stdout:
            witness.take(line)


async def check_journal(path: Path, witness: Witness) -> int:
    store = await SqliteStore.open(path)
    try:
        return await witness.check(store)
    finally:
        await store.close()


def main() -> None:
    """So many cycles on one store, checked after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    witness = Witness()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.db"
        for cycle in range(options.cycles):
            write_until_killed(path, witness, seed=options.seed + cycle)
            kept = asyncio.run(check_journal(path, witness))
            sys.stdout.write(f"\r{cycle + 1} kills, {len(witness.shown)} events shown, {kept} kept")
            sys.stdout.flush()
    sys.stdout.write("\nnothing that was shown was taken back\n")


if __name__ == "__main__":
    main()
