"""Automatic retries of OpenAI's packages: a retry reads the run that the first request started.

The packages retry after a timeout or a lost connection, with the same bytes and a retry count header. Without
this, each retry would repeat the work.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from msgspec import Struct
from starlette.requests import Request

from holdfast.features.openai.shapes import OpenAIFeed
from holdfast.folds.rows import RunRow
from holdfast.interfaces.clock import Clock
from holdfast.server.problems import Problem
from holdfast.server.transport.repeats import Abandoned, is_repeat, request_name

KEPT_S = 60.0


class AbandonedResponse(Struct, frozen=True):
    """A response whose reader left before its end: the run, and the event after which the response begins."""

    row: RunRow
    after: int


class Repeats:
    """Remembers the requests of readers who left; two open connections never share a response."""

    def __init__(self, clock: Clock) -> None:
        self._abandoned = Abandoned[AbandonedResponse](clock, kept_s=KEPT_S)

    def take_abandoned(self, request: Request, body: bytes) -> AbandonedResponse | None:
        """Return and remove the run of an earlier request with the same bytes and key, if this is a retry."""
        return self._abandoned.take(request_name(request, body)) if is_repeat(request) else None

    @contextmanager
    def rejoinable(self, request: Request, body: bytes, *, row: RunRow, after: int) -> Generator[None]:
        """Remember the response if the wait for it ends with a Problem, as when its reader left."""
        try:
            yield
        except Problem:
            self._abandon(request, body, row=row, after=after)
            raise

    def when_left(
        self, request: Request, body: bytes, *, row: RunRow, feed: OpenAIFeed, then: Callable[[], None] | None
    ) -> Callable[[], None]:
        """Return a callback for a disconnect, which remembers an unfinished response."""

        def left() -> None:
            if not feed.is_over:
                self._abandon(request, body, row=row, after=feed.begins_after)
            if then is not None:
                then()

        return left

    def _abandon(self, request: Request, body: bytes, *, row: RunRow, after: int) -> None:
        self._abandoned.put(request_name(request, body), AbandonedResponse(row, after))
