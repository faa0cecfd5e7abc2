"""Notices that a peer has gone while nothing is read from it."""

import asyncio
import select
from collections.abc import Callable

from holdfast.chaos.record import ClosedBy


class HangupWatch:
    """Watches a socket for FIN and RST without reading; it sees nothing on systems without epoll.

    A transport whose reading is paused learns of neither. The kernel queues FIN behind unread bytes, but
    epoll reports it at once, and an epoll descriptor can itself be watched by any event loop.
    """

    def __init__(self, fd: int, on_gone: Callable[[ClosedBy], None]) -> None:
        self._on_gone = on_gone
        self._loop = asyncio.get_running_loop()
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        if self._epoll is not None:
            self._epoll.register(fd, select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR)
            self._loop.add_reader(self._epoll.fileno(), self._look)

    def stop(self) -> None:
        """Watch no more; may be called again."""
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _look(self) -> None:
        if self._epoll is None:
            return
        events = self._epoll.poll(0)
        if events:
            mask = events[0][1]
            self.stop()
            self._on_gone(ClosedBy.PEER_RESET if mask & select.EPOLLERR else ClosedBy.PEER)
