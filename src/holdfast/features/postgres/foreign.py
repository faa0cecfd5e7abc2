"""Shows what other nodes appended to those who follow it here."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence

from holdfast.features.postgres.connection import Pool
from holdfast.features.postgres.heads import Heads, KnownHead
from holdfast.features.postgres.notices import AppendNotice
from holdfast.features.postgres.words import clean
from holdfast.interfaces.journal import Record, StoreDamaged
from holdfast.interfaces.nodes import OwnershipChange
from holdfast.journal.follow import Tails

IDS_MAX = 65_536
AT_ONCE = 500
RECORDS_MAX = 256


class ForeignAppends:
    """Turns notices into records for followers; see Tails for why their order is always right."""

    def __init__(
        self,
        pool: Pool,
        tails: Tails,
        heads: Heads,
        *,
        changed: Callable[[OwnershipChange], None],
        purged: Callable[[str], None],
    ) -> None:
        self._pool = pool
        self._tails = tails
        self._heads = heads
        self._changed = changed
        self._purged = purged
        self._ids: OrderedDict[int, str] = OrderedDict()
        self._keys: dict[str, int] = {}  # the other way round
        self._epochs: OrderedDict[str, str] = OrderedDict()  # of logs, by session
        self._changed_ms = 0  # when the newest change was made that `poll_all` has seen

    def know(self, heads: Mapping[str, KnownHead]) -> None:
        """Remember the keys of sessions that this node writes to."""
        for session_id, head in heads.items():
            if head.key not in self._ids:
                # A head's epoch may be out of date, so one that was looked up stays.
                self._know(session_id, head.key, self._epochs.get(session_id, head.row.epoch))

    def _know(self, session_id: str, key: int, epoch: str) -> None:
        """Remember which log the session has; followers of an earlier one end."""
        if not self._is_known(session_id, key, epoch):
            self.end(session_id)
        self._ids[key] = session_id
        self._keys[session_id] = key
        self._epochs[session_id] = epoch
        if len(self._ids) > IDS_MAX:
            self._keys.pop(self._ids.popitem(last=False)[1], None)
        if len(self._epochs) > IDS_MAX:
            self._epochs.popitem(last=False)

    def _is_known(self, session_id: str, key: int, epoch: str) -> bool:
        """Whether nothing says that followers here follow another log of the session."""
        return self._keys.get(session_id, key) == key and self._epochs.get(session_id, epoch) == epoch

    def forget_keys(self) -> None:
        """Forget the keys of sessions: after a failover, they may belong to others."""
        self._ids.clear()
        self._keys.clear()

    def end(self, session_id: str) -> None:
        """Forget a log that is gone or has other seqs, and end its followers."""
        key = self._keys.pop(session_id, None)
        if key is not None:
            self._ids.pop(key, None)
        self._epochs.pop(session_id, None)
        self._heads.forget([session_id])
        self._tails.end(session_id)

    async def heard(self, notice: AppendNotice) -> None:
        """Show what a notice is about."""
        await self._end_replaced(notice)
        if notice.are_claimable:
            self._changed("claimable")
        loud = [key for key, _, is_loud in notice.tops if is_loud]
        seqs = {key: seq for key, seq, _ in notice.tops}
        await self._learn(loud if self._tails.are_empty else seqs)
        # Most logs that other nodes write to are of no interest here, and each of many nodes hears of all of
        # them. So this asks once which ones are.
        named = dict(zip(map(self._ids.get, seqs), seqs.values(), strict=True))
        for session_id in self._heads.among(named):
            self._heads.forget_older(session_id, named[session_id])
        behind: dict[str, int] = {}
        shown: dict[str, int] = {}
        for session_id in self._tails.among(named):
            last_seq = self._tails.shown(session_id)
            if last_seq is not None and last_seq < named[session_id]:
                behind[session_id] = named[session_id]
                shown[session_id] = last_seq
        for session_id in map(self._ids.get, loud):
            if session_id is not None and self._tails.shown(session_id) is None:
                self._tails.changed(session_id)
        await self._show(behind, shown)

    async def _end_replaced(self, notice: AppendNotice) -> None:
        """End followers of logs that were purged or renewed, after a look: the notice may be forged."""
        session_ids = list(dict.fromkeys((*notice.purged, *notice.renewed)))
        if not session_ids:
            return
        found = await self._pool.rows("logs_by_id", session_ids=[*map(clean, session_ids)])
        logs = {row["session_id"]: (row["key"], row["epoch"]) for row in found}
        for session_id in session_ids:
            log = logs.get(session_id)
            if log is not None and session_id in self._epochs and self._is_known(session_id, *log):
                continue
            self.end(session_id)
            if session_id in notice.purged:
                self._purged(session_id)

    async def _learn(self, keys: Iterable[int]) -> None:
        unknown = [key for key in keys if key not in self._ids]
        if unknown:
            for row in await self._pool.rows("logs_by_key", keys=unknown):
                self._know(row["session_id"], row["key"], row["epoch"])

    async def _show(self, behind: Mapping[str, int], followed: Mapping[str, int]) -> None:
        """Read new records once for all followers; a follower that has shown nothing yet reads its own.

        A seq that wasn't reached is verified, because followers would wait forever for a forged one.
        """
        shown = [(session_id, followed[session_id]) for session_id in behind if followed[session_id]]
        for session_id, records in await self._read(shown):
            self._tails.catch_up(session_id, records)
        known = {session_id: self._tails.shown(session_id) for session_id in behind}
        await self._look({id_: seq for id_, seq in known.items() if seq is not None and seq < behind[id_]})

    async def _read(self, places: Sequence[tuple[str, int]]) -> list[tuple[str, Sequence[Record]]]:
        if not places:
            return []
        found = await self._pool.rows(
            "read_each",
            session_ids=[session_id for session_id, _ in places],
            afters=[after for _, after in places],
            limit=RECORDS_MAX,
        )
        records: list[list[Record]] = [[] for _ in places]
        try:
            for nth, seq, crc, body in found:
                session_id = places[int(nth) - 1][0]
                records[int(nth) - 1].append(Record.verified(session_id, seq, crc=crc, body=body))
        except StoreDamaged:
            return []  # each reader finds the damage in its own log
        return [(place[0], one) for place, one in zip(places, records, strict=True) if one]

    async def reread(self) -> None:
        """Look at everything that is followed, because notices may have been missed."""
        self._heads.clear()
        await self._look(self._tails.known())

    async def poll(self) -> bool:
        """Look at the logs that somebody waits for; return whether there are any."""
        awaited = self._tails.awaited()
        await self._look(awaited)
        return bool(awaited)

    async def poll_all(self) -> None:
        """Look at everything that notices would have told of."""
        await self._look(self._tails.known())
        since_ms = self._changed_ms
        for row in await self._pool.rows("changed_since", since_ms=since_ms, limit=AT_ONCE):
            self._changed_ms = max(self._changed_ms, row["updated_ms"])
            if since_ms:
                self._tails.changed(row["session_id"])
        self._changed("claimable")

    async def _look(self, followed: Mapping[str, int]) -> None:
        """Bring these logs up to date."""
        session_ids = list(followed)
        for begin in range(0, len(session_ids), AT_ONCE):
            some = session_ids[begin : begin + AT_ONCE]
            found = await self._pool.rows("last_seqs", session_ids=some)
            last_seqs = {row["session_id"]: row["last_seq"] for row in found}
            for session_id in some:
                last_seq = last_seqs.get(session_id, 0)
                if last_seq < followed[session_id]:
                    self._tails.end(session_id)  # purged, and perhaps created again
                elif last_seq > followed[session_id]:
                    self._tails.advance(session_id, last_seq)
                    self._tails.changed(session_id)
