"""A server that starts while its database comes and goes."""

from collections.abc import Mapping, Sequence
from itertools import count

from holdfast.chaos import ChaosServer, Say
from holdfast.folds.rows import RunRow
from holdfast.interfaces.index import RunQuery
from holdfast.interfaces.journal import StoreUnreachable
from serving import served, target_of
from stores import MemoryStore


class AwayAt(MemoryStore):
    """The database can't be reached at the nth look into it."""

    def __init__(self, nth: int) -> None:
        super().__init__()
        self._nth = nth
        self.was_away = False

    def _look(self) -> None:
        self._nth -= 1
        if self._nth == 0:
            self.was_away = True
            raise StoreUnreachable("the database system is not yet accepting connections")

    async def notes(self, prefix: str) -> Mapping[str, bytes]:
        self._look()
        return await super().notes(prefix)

    async def runs(self, query: RunQuery) -> Sequence[RunRow]:
        self._look()
        return await super().runs(query)


async def test_a_database_that_goes_away_during_a_start_is_waited_for() -> None:
    """P6: a restart of the database is a pause, also for a server that is just being restarted."""
    tried = 0
    for tried in count(1):
        store = AwayAt(tried)
        async with ChaosServer([Say("hello")]) as chaos, served(target_of(chaos), store=store) as server:
            has_started = not store.was_away
            assert (await server.ended(await server.start()))["output"] == "hello"
        await store.close()
        if has_started:
            break  # the start needed fewer looks: each of them was tried
    assert tried > 4, "the start looks at keys, sign-ins, marks and open runs"
