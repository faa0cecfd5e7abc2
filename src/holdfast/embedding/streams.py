"""A run to follow, before it has started: what `agent.stream` gives you."""

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn

from typing_extensions import override

from holdfast.embedding.results import OutputT
from holdfast.embedding.runs import RunHandle

HOW_TO_WRITE_IT = (
    "A stream is a block, because leaving it stops the run. Write `async with agent.stream(…) as run:`, "
    "and in it `async for event in run:` or `async for piece in run.text():`."
)


class RunStream(AbstractAsyncContextManager[RunHandle[OutputT]], Generic[OutputT]):
    """Starts a run when its block begins; if the run hasn't ended when the block ends, it is stopped."""

    def __init__(self, opened: AbstractAsyncContextManager[RunHandle[OutputT]]) -> None:
        self._opened = opened

    @override
    async def __aenter__(self) -> RunHandle[OutputT]:
        return await self._opened.__aenter__()

    @override
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._opened.__aexit__(kind, error, trace)

    if not TYPE_CHECKING:  # a type checker refuses these, and says why

        def __aiter__(self) -> NoReturn:
            raise TypeError(HOW_TO_WRITE_IT)

        def __await__(self) -> NoReturn:
            raise TypeError(HOW_TO_WRITE_IT)

        def __enter__(self) -> NoReturn:
            raise TypeError(HOW_TO_WRITE_IT)

        def __exit__(self, *_: object) -> None:
            """Python looks for it before it calls `__enter__`."""
