"""Values that are kept until their log changes."""

from holdfast.interfaces.journal import LogWatch, Record
from holdfast.journal.follow import KeptValues, Tails
from journal.sample import created


class Watched:
    """The end of a journal, which can only be watched."""

    def __init__(self) -> None:
        self.tails = Tails(self._nothing)
        self.reads = 0

    async def _nothing(self, session_id: str, after: int, limit: int) -> list[Record]:
        del session_id, after, limit
        return []

    def watch(self, session_id: str) -> LogWatch:
        return self.tails.watch(session_id)

    async def read(self) -> int:
        self.reads += 1
        return self.reads


async def test_a_value_is_read_again_after_an_append_and_a_purge_and_if_too_many_are_kept() -> None:
    journal = Watched()
    kept: KeptValues[int] = KeptValues(journal.watch, kept_max=1)

    async def got() -> int:
        return await kept.get("a", journal.read)

    assert [await got(), await got()] == [1, 1]
    journal.tails.publish("a", [Record("a", 1, body=b"", decoded=created())])
    assert [await got(), await got()] == [2, 2]
    journal.tails.end("a")
    assert [await got(), await got()] == [3, 3]
    await kept.get("b", journal.read)
    assert await got() == 5


async def test_an_append_during_the_read_is_not_missed() -> None:
    journal = Watched()
    kept: KeptValues[int] = KeptValues(journal.watch)

    async def read() -> int:
        journal.tails.publish("a", [Record("a", 1, body=b"", decoded=created())])
        return await journal.read()

    assert [await kept.get("a", read), await kept.get("a", journal.read)] == [1, 2]
