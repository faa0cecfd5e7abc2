"""Crashes by count-down: die at the nth time that a point is passed.

The loop that tries every one of them:

    for nth in count(1):
        crash = CrashPoint(nth)
        journal = CrashingJournal(MemoryJournal(), crash)    # its append is crash.around(inner.append)
        await run_until_crash(journal)
        await restart_and_check(journal.survivor)
        if not crash.has_crashed:
            break                                            # the scenario ran untouched
"""

import os
import signal
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Literal, NoReturn, ParamSpec, TypeVar, cast

from msgspec import Struct

P = ParamSpec("P")
T = TypeVar("T")

EXIT_STATUS = 86


class Crashed(BaseException):
    """The process is dead, as far as the code under test can tell; no `except Exception` catches it."""


def raise_crashed() -> NoReturn:
    """Die by exception, within a test's own process."""
    raise Crashed


def exit_now() -> NoReturn:
    """Die without unwinding, flushing or exit functions; for a child process."""
    os._exit(EXIT_STATUS)


def kill_self() -> NoReturn:
    """Die by SIGKILL; for a child process."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL cannot be survived")


class CrashPoint(Struct):
    """Dies at the nth passage of a named point, or of any point if it has no name.

    Once dead it stays dead: every later passage of any point dies too, because a dead process doesn't append
    anything from a `finally`.
    """

    nth: int
    name: str = ""
    die: Callable[[], NoReturn] = raise_crashed
    passed: int = 0
    has_crashed: bool = False

    def reach(self, name: str = "") -> None:
        """Pass a point, or die there."""
        if not self.has_crashed:
            if self.name and name != self.name:
                return
            self.passed += 1
            if self.passed < self.nth:
                return
            self.has_crashed = True
        self.die()

    def around(
        self,
        call: Callable[P, Awaitable[T]],
        name: str = "",
        *,
        when: Literal["before", "after"] = "before",
    ) -> Callable[P, Awaitable[T]]:
        """The same call with a point before it, or after it: then it's done, but its caller never learns."""

        @wraps(call)
        async def with_point(*args: P.args, **kwargs: P.kwargs) -> T:
            if when == "before" or self.has_crashed:
                self.reach(name)
            outcome = await call(*args, **kwargs)
            if when == "after":
                self.reach(name)
            return outcome

        return with_point


def is_crash(error: BaseException) -> bool:
    """Whether an error is a crash, or a group (as a TaskGroup raises it) that holds one."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return any(is_crash(inner) for inner in group.exceptions)
    return isinstance(error, Crashed)
