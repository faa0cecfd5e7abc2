"""Discord's rate limits: a gate for each route and channel, and one for the whole bot."""

from collections.abc import Mapping

from holdfast.interfaces.clock import Clock

GATES_MAX = 2_000
MARGIN_S = 0.05  # Discord's clock and ours don't agree to the millisecond


class RateGates:
    """Says how long a request has to wait, so that none is made that Discord would refuse."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s: dict[tuple[str, str], float] = {}

    def wait_s(self, route: str, place: str) -> float:
        """How long until this route is open for this channel; 0 if it is."""
        now_s = self._clock.steady_s()
        until = max(self._until_s.get(key, 0.0) for key in ((route, place), ("", "")))
        return max(0.0, until - now_s)

    def hold(self, route: str, place: str, seconds: float) -> None:
        """Close a gate for some time; without a route, it is the one of the whole bot."""
        until_s = self._clock.steady_s() + seconds + MARGIN_S
        self._until_s[route, place] = max(until_s, self._until_s.get((route, place), 0.0))
        if len(self._until_s) > GATES_MAX:
            now_s = self._clock.steady_s()
            self._until_s = {key: until for key, until in self._until_s.items() if until > now_s}

    def note(self, route: str, place: str, headers: Mapping[str, str]) -> None:
        """Read what an answer says about the limit of its route."""
        if headers.get("X-RateLimit-Remaining") != "0":
            return
        try:
            self.hold(route, place, float(headers.get("X-RateLimit-Reset-After", "")))
        except ValueError:
            return  # without a time there is nothing to wait for; a refusal would name one
