"""An event loop whose clock the test moves: deadlines keep their real lengths and pass without a wait."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import ParamSpec

_Args = ParamSpec("_Args")

# How often everybody gets a turn. A request comes in, is answered and goes out in a number of turns that
# depends on the code alone, not on the machine's speed.
TURNS = 50


class MovedLoop(asyncio.SelectorEventLoop):
    """A loop whose clock is moved by hand."""

    moved_s = 0.0

    def time(self) -> float:
        return super().time() + self.moved_s


async def time_passes(by_s: float) -> None:
    """Let everybody come to their next wait, let time pass, let everybody see it."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, MovedLoop)
    for step_s in (0.0, by_s, 0.0):
        loop.moved_s += step_s
        for _ in range(TURNS):
            await asyncio.sleep(0)


def on_moved_loop(test: Callable[_Args, Coroutine[object, object, None]]) -> Callable[_Args, None]:
    """Run an async test on such a loop."""

    @wraps(test)
    def run(*args: _Args.args, **kwargs: _Args.kwargs) -> None:
        with asyncio.Runner(loop_factory=MovedLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run
