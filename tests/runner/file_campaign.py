"""Do to the files of a server's data directory what other programs might do, and hold it to its words.

As a command: python bench/faults_files.py --cycles 100 --seed 1
"""

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.chaos import ChaosServer, Say
from holdfast.events import MessageAccepted
from holdfast.interfaces.journal import Record, StoreDamaged
from journal.file_faults import FAULTS, copy_of
from runner.campaign_checks import Findings, check_shown
from runner.campaign_users import GONE, Server, Witness, read_session
from runner.program import Program, configure, program
from stores import SqliteStore

USERS = 3
PAUSE_S = 0.02
HANG_S = 120.0
FOLDER = "the directory"
STORE = ("holdfast.db", "holdfast.db-wal", "holdfast.db-shm")
OTHERS = ("holdfast.db-mark", "lock", "holdfast.log", "blobs", FOLDER)
SAVED, ELSEWHERE = "restart Holdfast", "move that file to"
LOST, NOTHING_LOST = "can no longer be read", "Nothing is lost"


@dataclass(slots=True)
class Cycle:
    """One life of a server, one fault, and the next life; `said` is what it answered instead of accepting."""

    folder: Path
    seed: int
    witness: Witness = field(default_factory=Witness)
    said: list[str] = field(default_factory=list[str])
    findings: Findings = field(default_factory=Findings)
    fault: str = ""
    ending: str = ""

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def names(self) -> list[str]:
        return [f"u{nth}" for nth in range(USERS)]

    async def run(self) -> None:
        """Everything, within a time."""
        chance = random.Random(self.seed)
        try:
            async with asyncio.timeout(HANG_S):
                async with ChaosServer(choose=lambda _: [Say("well "), Say("said")]) as chaos:
                    configure(self.folder, chaos.base_url, drain_s=0.2)
                    complaints = await self._live(chance)
                    self._insist_on_words(complaints)
                    await self._live_again(complaints)
        except TimeoutError:
            self.findings.broken.append("it hangs")

    async def _live(self, chance: random.Random) -> str:
        async with program(self.folder) as running, self._everyone(running):
            await asyncio.sleep(0.1 + 0.4 * chance.random())
            await asyncio.to_thread(copy_of, self.data, self.folder / "older")
            await asyncio.sleep(0.5 * chance.random())
            await asyncio.to_thread(self._hurt, chance)
            await asyncio.sleep(chance.choice((0.0, 0.3, 2.5)))
            with suppress(ProcessLookupError):
                running.process.send_signal(signal.SIGTERM)
            code, complaints = await running.ended()
            self.ending = f"exit {code}"
            is_well = code == 0 or (code == -signal.SIGBUS and "shm" in self.fault)
            self.findings.insist(that=is_well, or_else=f"the server ended with {code}")
        return complaints

    @asynccontextmanager
    async def _everyone(self, running: Program) -> AsyncGenerator[None]:
        server = Server(running.http)
        server.up(running.url)
        readers = [asyncio.create_task(read_session(server, name, self.witness)) for name in self.names]
        senders = [asyncio.create_task(self._send(server, name)) for name in self.names]
        try:
            yield
        finally:
            for task in (*readers, *senders):
                task.cancel()
            await asyncio.wait([*readers, *senders])
            for task in (*readers, *senders):
                if not task.cancelled() and (error := task.exception()) is not None:
                    self.findings.broken.append(repr(error))

    async def _send(self, server: Server, name: str) -> None:
        nth = 0
        while True:
            nth += 1
            text = f"say {name}-{nth}"
            body = {"input": text, "session_id": name}
            with suppress(*GONE):
                async with server.http.post(f"{server.url}/v1/runs", json=body) as answer:
                    told = await answer.json()
                    if answer.status == 202:
                        self.witness.sent[text] = told["run_id"]
                    elif answer.status >= 500:
                        self.said.append(told["error"]["message"])
                        wanted = 503 if told["error"]["code"] != "store_damaged" else 500
                        self.findings.insist(that=answer.status == wanted, or_else=f"{answer.status} {told}")
            await asyncio.sleep(PAUSE_S)

    def _hurt(self, chance: random.Random) -> None:
        file = chance.choice((*STORE, *STORE, *OTHERS))
        how = chance.choice([*FAULTS])
        if file in {FOLDER, "blobs"}:
            how = chance.choice(("remove", "move"))
            folder = self.data if file == FOLDER else self.data / "blobs"
            if folder.exists() and how == "remove":
                shutil.rmtree(folder, ignore_errors=True)
            elif folder.exists():
                folder.rename(self.folder / "moved")
        else:
            FAULTS[how](self.data / file, self.folder / "older" / file)
        self.fault = f"{how} {file}"

    def _insist_on_words(self, complaints: str) -> None:
        """Whatever it says is a sentence, and it does not say two things."""
        for text in (*self.said, complaints):
            self.findings.insist(that="Traceback" not in text, or_else=f"a traceback: {text[-600:]}")
            self.findings.insist(that="[Errno" not in text, or_else=f"a raw error: {text[-300:]}")
        is_lost = LOST in complaints
        is_saved = SAVED in complaints or ELSEWHERE in complaints or NOTHING_LOST in complaints
        self.findings.insist(that=not (is_lost and is_saved), or_else=f"both lost and saved: {complaints}")

    async def _live_again(self, complaints: str) -> None:
        if self.fault == f"move {FOLDER}":
            await asyncio.to_thread(self._move_back)
        elif ELSEWHERE in complaints:
            await asyncio.to_thread(self._put_saved_in_place)
        try:
            async with program(self.folder) as running:
                status, _ = await running.call("GET", "/health")
                self.findings.insist(that=status == 200, or_else=f"health says {status}")
                running.process.send_signal(signal.SIGTERM)
                await running.ended()
        except AssertionError as error:  # it did not greet; these are its words
            refusal = str(error)
            self.ending += ", refused"
            self.findings.insist(that=LOST in complaints, or_else=f"refused without a warning: {refusal}")
            self.findings.insist(that="Traceback" not in refusal, or_else=refusal[-600:])
            return
        await self._check(complaints)

    def _move_back(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        (self.folder / "moved").rename(self.data)

    def _put_saved_in_place(self) -> None:
        for name in ("holdfast.db-wal", "holdfast.db-shm"):
            (self.data / name).unlink(missing_ok=True)
        max(self.data.glob("holdfast.db.saved-*")).replace(self.data / "holdfast.db")

    async def _check(self, complaints: str) -> None:
        """All that was shown or accepted is there, unless it was said to be lost."""
        broken = Findings()
        try:
            store = await SqliteStore.open(self.data / "holdfast.db")
        except StoreDamaged as damage:
            broken.broken.append(str(damage))
        else:
            try:
                for name in self.names:
                    await self._check_log(broken, store, name)
            finally:
                await store.close()
        if LOST not in complaints:
            self.findings.broken += broken.broken

    async def _check_log(self, findings: Findings, store: SqliteStore, name: str) -> None:
        records: list[Record] = []
        while more := await store.read(name, after=len(records)):
            records.extend(more)
        self.findings.events += len(records)
        check_shown(findings, self.witness, name=name, records=records)
        texts = Counter(one.event.text for one in records if isinstance(one.event, MessageAccepted))
        for text in self.witness.sent:
            if f" {name}-" in text:
                findings.insist(that=texts[text] == 1, or_else=f"{text!r} is there {texts[text]} times")


async def campaign(seed: int, cycles: int, *, folder: Path) -> list[Cycle]:
    """So many cycles, each on a directory of its own; it ends at the first that breaks a promise."""
    done: list[Cycle] = []
    for nth in range(cycles):
        place = folder / str(nth)
        place.mkdir()
        cycle = Cycle(place, seed + nth)
        done.append(cycle)
        await cycle.run()
        if cycle.findings.broken:
            break
        await asyncio.to_thread(shutil.rmtree, place)
    return done


def told(cycle: Cycle) -> str:
    """A cycle in a few lines."""
    counts = f"{len(cycle.witness.sent)} inputs accepted, {len(cycle.witness.shown)} events shown"
    lines = [
        f"seed {cycle.seed}: {cycle.fault}; {cycle.ending}; {counts}, {cycle.findings.events} kept",
        *sorted({f"  it said: {text}" for text in cycle.said}),
        *(f"  BROKEN: {text}" for text in cycle.findings.broken[:10]),
    ]
    return "\n".join(lines)


def main() -> None:
    """A campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="holdfast-files-"))
    done = asyncio.run(campaign(options.seed, options.cycles, folder=folder))
    for cycle in done:
        sys.stdout.write(told(cycle) + "\n")
    if any(cycle.findings.broken for cycle in done):
        sys.stdout.write(f"its data is in {folder}\n")
        sys.exit(1)
    shutil.rmtree(folder)
    sys.stdout.write("every promise kept\n")


if __name__ == "__main__":
    main()
