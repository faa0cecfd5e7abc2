"""Chooses a script for each request."""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct, field

from holdfast.chaos.record import SeenRequest
from holdfast.chaos.reply import Script
from holdfast.chaos.statuses import Status

AfterLast = Literal["fail", "repeat", "cycle"]
Choose = Callable[[SeenRequest], Script]


class Source(Protocol):
    """Gives each request its script."""

    def at_headers(self, request: SeenRequest) -> Script | None:
        """The script, if it can be known before the body is; asked once per request."""
        ...

    def at_body(self, request: SeenRequest) -> Script:
        """The script, when `at_headers` had none."""
        ...


def exhausted(count: int) -> Script:
    """The answer to a request that no script was written for."""
    message = f"script exhausted: {count} attempt(s) were scripted and one more request came"
    return [Status(500, message=message, code="script_exhausted")]


class Attempts(Struct):
    """One script per request, in order of arrival."""

    scripts: Sequence[Script]
    after_last: AfterLast = "fail"
    taken: int = 0

    def at_headers(self, request: SeenRequest) -> Script:
        """The next script."""
        del request
        return self.take()

    def at_body(self, request: SeenRequest) -> Script:
        """The next script."""
        return self.at_headers(request)

    def take(self) -> Script:
        """Use up one attempt."""
        index, count = self.taken, len(self.scripts)
        self.taken += 1
        if index < count:
            return self.scripts[index]
        if self.after_last == "fail" or count == 0:
            return exhausted(count)
        return self.scripts[-1] if self.after_last == "repeat" else self.scripts[index % count]


class Chosen(Struct, frozen=True):
    """A script chosen by a function of the whole request."""

    choose: Choose

    def at_headers(self, request: SeenRequest) -> None:
        """None: the function needs the body."""
        del request

    def at_body(self, request: SeenRequest) -> Script:
        """Return the function's script."""
        return self.choose(request)


class Routed(Struct):
    """Attempts per key of the request, such as its model or its path; a `Choose` function."""

    key: Callable[[SeenRequest], str]
    routes: Mapping[str, Sequence[Script]]
    after_last: AfterLast = "fail"
    _attempts: dict[str, Attempts] = field(default_factory=dict[str, Attempts])

    def __call__(self, request: SeenRequest) -> Script:
        """The next script of the request's key."""
        key = self.key(request)
        if key not in self.routes:
            message = f"no script for {key!r}; there are scripts for {', '.join(sorted(self.routes))}"
            return [Status(404, message=message, code="model_not_found")]
        return self._attempts.setdefault(key, Attempts(self.routes[key], self.after_last)).take()


def by_model(routes: Mapping[str, Sequence[Script]], after_last: AfterLast = "fail") -> Routed:
    """Attempts per model name."""
    return Routed(lambda request: request.model, routes, after_last)


def by_path(routes: Mapping[str, Sequence[Script]], after_last: AfterLast = "fail") -> Routed:
    """Attempts per path, without its query."""
    return Routed(lambda request: request.path.partition("?")[0], routes, after_last)
