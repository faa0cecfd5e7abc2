"""How nodes learn of each other's appends: NOTIFY after the commit, and LISTEN on one connection per node.

A notice only says where to look. So a lost one costs time and nothing else: notices are numbered, and after a
gap, or a silence in which not even a beat was heard, the node reads everything that it follows again.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import msgspec

from holdfast.features.postgres.connection import Connection, Database, named
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.interfaces.journal import JournalError

if TYPE_CHECKING:
    from holdfast.features.postgres.foreign import ForeignAppends

ENTRIES_MAX = 200  # per notice, whose limit is 8,000 bytes
IDS_CHARS_MAX = 1_000
STEPS_BEHIND = (
    3  # of the event loop: what those who waited for a commit append next is sent before its notice
)
NODES_MAX = 10_000  # whose last notice number is remembered
WAITING_MAX = 20_000  # entries; beyond this, others are told to read everything again

_log = logging.getLogger(__name__)


BigInt = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # Postgres has no larger integer


class AppendNotice(msgspec.Struct, array_like=True):
    """What one node tells the others; `purged` are ids of sessions that are gone, `renewed` of new logs.

    `tops` has the key and last seq of each log that has grown, and whether by more than deltas.
    """

    incarnation: BigInt
    number: BigInt
    tops: list[tuple[BigInt, BigInt, bool]] = []
    purged: list[str] = []
    are_claimable: bool = False
    renewed: list[str] = []


class NoticeSender:
    """Sends notices, one at a time: whatever is committed meanwhile shares the next one."""

    def __init__(
        self,
        database: Database,
        *,
        incarnation: Callable[[], int],
        channel: Callable[[], str],
        tuning: PostgresTuning,
    ) -> None:
        self._database = database
        self._incarnation = incarnation
        self._channel = channel
        self._tuning = tuning
        self._tops: dict[int, int] = {}
        self._loud: set[int] = set()
        self._purged: dict[str, None] = {}
        self._renewed: dict[str, None] = {}
        self._are_claimable = False
        self._number = 0
        self._wanted = asyncio.Event()
        self._sent = asyncio.Event()
        self._sent.set()
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None

    def grown(self, tops: Mapping[int, int], *, loud: Iterable[int]) -> None:
        """Tell how far these logs go now, by key; more than deltas were appended to those in `loud`."""
        self._tops.update(tops)
        self._loud.update(loud)
        if len(self._tops) > WAITING_MAX:
            self._tops.clear()
            self._loud.clear()
            self._number += 1  # a gap, after which everybody reads again
        self._want()

    def purged(self, session_id: str) -> None:
        """Tell that a session is gone."""
        self._purged[session_id] = None
        self._want()

    def renewed(self, session_id: str) -> None:
        """Tell that the events of a session have other seqs than before."""
        self._renewed[session_id] = None
        self._want()

    def released(self) -> None:
        """Tell that a session can be claimed."""
        self._are_claimable = True
        self._want()

    def _want(self) -> None:
        self._sent.clear()
        # After those who wait for the commit: sending would hold them up.
        self._loop.call_soon(self._wanted.set)

    async def flush(self) -> None:
        """Wait until everything so far is sent, but not for long."""
        try:
            async with asyncio.timeout(self._tuning.pause_last_s):
                await self._sent.wait()
        except TimeoutError:
            _log.debug("other nodes find out at their next beat")

    async def run(self) -> None:
        """Send until cancelled."""
        try:
            while True:
                await self._wanted.wait()
                for _ in range(STEPS_BEHIND):
                    await asyncio.sleep(0)
                self._wanted.clear()
                while self._tops or self._purged or self._renewed or self._are_claimable:
                    await self._send(self._next())
                self._sent.set()
                # Under load, a notice for every commit would cost as much as the commits.
                await asyncio.sleep(self._tuning.notice_pause_s)
        finally:
            if self._connection is not None:
                self._connection.terminate()

    def _next(self) -> AppendNotice:
        keys = list(self._tops)[:ENTRIES_MAX]
        tops = [(key, self._tops.pop(key), key in self._loud) for key in keys]
        self._loud.difference_update(keys)
        purged, renewed = _some(self._purged), _some(self._renewed)
        are_claimable, self._are_claimable = self._are_claimable, False
        self._number += 1
        return AppendNotice(self._incarnation(), self._number, tops, purged, are_claimable, renewed)

    async def _send(self, notice: AppendNotice) -> None:
        """Send one notice; if that fails its number is missing, and others read again."""
        payload = msgspec.json.encode(notice).decode()
        try:
            if self._connection is None or self._connection.is_closed:
                self._connection = await self._database.connect("notices", query_s=self._tuning.lease_s)
            await self._connection.rows("notify", channel=self._channel(), payload=payload)
        except Exception as error:
            if not isinstance(named(error), JournalError):
                raise
            _log.debug("other nodes were not told at once: %s", error)
            if self._connection is not None:
                self._connection.terminate()
                self._connection = None
            await self._database.pause(self._tuning.pause_last_s)


def _some(ids: dict[str, None]) -> list[str]:
    """As many ids as fit into a notice; they are taken out."""
    taken: list[str] = []
    while ids and sum(map(len, taken)) < IDS_CHARS_MAX:
        taken.append(ids.popitem()[0])
    return taken


class NoticeListener:
    """Hears the notices of other nodes, in the order in which they were sent, or else polls.

    Behind a pooler that shares connections between transactions, not even our own beats arrive.
    """

    def __init__(
        self,
        database: Database,
        hooks: "ForeignAppends",
        *,
        incarnation: Callable[[], int],
        channel: Callable[[], str],
        tuning: PostgresTuning,
    ) -> None:
        self._database = database
        self._hooks = hooks
        self._incarnation = incarnation
        self._channel = channel
        self._tuning = tuning
        self._numbers: dict[int, int] = {}
        self._payloads: list[str] = []
        self._arrived = asyncio.Event()
        self._has_heard = False  # since it connected
        self.is_polling = False
        self.is_ready = asyncio.Event()  # what others append from now on is noticed

    async def run(self) -> None:
        """Listen, or poll where that doesn't work, until cancelled."""
        while True:
            try:
                await self._listen()
                if not self._has_heard:
                    await self._poll_for_a_while()
            except Exception as error:
                if not isinstance(named(error), JournalError):
                    raise
                _log.debug("the listener connects again: %s", error)
            self.is_ready.clear()
            await self._database.pause(self._tuning.pause_last_s)

    async def _poll_for_a_while(self) -> None:
        if not self.is_polling:
            _log.warning(
                "the database's notifications don't arrive, so this node looks for changes instead; behind a "
                "pooler, set server.store_direct to the address of the database itself"
            )
            self.is_polling = True
        clock = asyncio.get_running_loop().time
        again_s, all_s = clock() + self._tuning.listen_again_s, 0.0
        while clock() < again_s:
            is_awaited = await self._hooks.poll()
            if clock() >= all_s:
                await self._hooks.poll_all()
                all_s = clock() + self._tuning.poll_idle_s
            await asyncio.sleep(self._tuning.poll_s if is_awaited else self._tuning.poll_idle_s)

    async def _listen(self) -> None:
        connection = await self._database.connect("listener")
        try:
            self._payloads.clear()
            self._numbers.clear()
            self._has_heard = False
            await connection.listen(self._channel(), self._receive)
            connection.on_end(self._arrived.set)
            await self._hooks.reread()
            self.is_ready.set()
            while not connection.is_closed:
                try:
                    async with asyncio.timeout(self._tuning.listen_silence_s):
                        await self._arrived.wait()
                except TimeoutError:
                    if self._has_heard:
                        _log.warning("no notices came from the database, so the node connects again")
                    return
                self._arrived.clear()
                payloads, self._payloads = self._payloads, []
                are_missing = [await self._has_gap(payload) for payload in payloads]
                if any(are_missing):
                    await self._hooks.reread()
        finally:
            connection.terminate()

    def _receive(self, payload: str) -> None:
        self._has_heard, self.is_polling = True, False
        if payload.startswith(f"[{self._incarnation()},"):
            return  # our own notice
        self._payloads.append(payload)
        if len(self._payloads) > WAITING_MAX:
            self._payloads = self._payloads[-1:]  # a gap
        self._arrived.set()

    async def _has_gap(self, payload: str) -> bool:
        """Act on a payload; return whether a notice may have been missed.

        Any role of the database can send to the channel, so a payload that isn't a notice is a gap.
        """
        if not payload:
            return False  # a heartbeat
        try:
            notice = msgspec.json.decode(payload, type=AppendNotice)
        except (msgspec.MsgspecError, RecursionError):
            _log.warning("a notification on channel %s isn't from Holdfast: %.100r", self._channel(), payload)
            return True
        last = self._numbers.get(notice.incarnation)
        if last is None and len(self._numbers) >= NODES_MAX:
            self._numbers.clear()
        self._numbers[notice.incarnation] = notice.number
        await self._hooks.heard(notice)
        return last is not None and notice.number != last + 1
