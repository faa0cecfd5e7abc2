"""Values made from logs, each kept until its log changes."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from holdfast.interfaces.journal import LogWatch

KEPT_MAX = 1_000

T = TypeVar("T")


class KeptValues(Generic[T]):
    """The values that were used last; nobody may change one. `watch` is the journal's."""

    def __init__(self, watch: Callable[[str], LogWatch], *, kept_max: int = KEPT_MAX) -> None:
        self._watch = watch
        self._kept_max = kept_max
        self._kept: OrderedDict[str, tuple[LogWatch, int, T]] = OrderedDict()

    async def get(self, log_id: str, read: Callable[[], Awaitable[T]]) -> T:
        """The value; it is read only if the log has changed since, or if nobody can tell."""
        kept = self._kept.get(log_id)
        if kept is not None and kept[0].position == kept[1]:
            self._kept.move_to_end(log_id)
            return kept[2]
        watch = self._watch(log_id)
        # An append during the read changes the position, so the next caller reads again.
        position = watch.position
        value = await read()
        if position is not None:
            self._kept[log_id] = watch, position, value
            if len(self._kept) > self._kept_max:
                self._kept.popitem(last=False)
        return value
