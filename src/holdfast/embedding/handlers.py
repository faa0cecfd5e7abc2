"""The functions that a program gives to its agent: async ones run in its event loop, others in a thread."""

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from inspect import isawaitable, iscoroutinefunction, signature
from typing import TypeVar, cast

from holdfast.tools.offload import offload

GivenT = TypeVar("GivenT")
SaidT = TypeVar("SaidT")


async def called(handler: Callable[[GivenT], SaidT | Awaitable[SaidT]], given: GivenT) -> SaidT:
    """What the handler says. A plain function may block, for example to ask a person at a terminal."""
    if iscoroutinefunction(handler):
        return await cast("Awaitable[SaidT]", handler(given))
    context = copy_context()
    # Nothing that it says counts after the run has stopped, so nobody waits for it then.
    said = await offload(lambda: context.run(handler, given), linger_s=0)
    return await said if isawaitable(said) else cast("SaidT", said)


def insist_on_handlers(**handlers: object) -> None:
    """Raise TypeError if a handler can't be called with the one thing that it is asked about."""
    for name, handler in handlers.items():
        if handler is None:
            continue
        if not callable(handler):
            raise TypeError(f"{name} is a function with one argument, and not {handler!r:.80}.")
        try:
            expected = signature(handler)
        except ValueError:
            continue  # some built-in functions don't say what they take
        try:
            expected.bind(object())
        except TypeError:
            raise TypeError(
                f"{name} is called with one argument, which {handler!r:.80}{expected} can't take."
            ) from None
