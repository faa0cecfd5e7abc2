"""A watchdog whose deadline has passed before it could be set, as in a process that stood still."""

import uvloop

from holdfast.decisions.deadlines import RequestFacts, Sign, effective
from holdfast.models.watchdog import Watchdog
from holdfast.targets import Patience


async def sign_after_the_deadline() -> None:
    patience = Patience(connect_s=1e-9)  # over by the time the timer is set
    watchdog = Watchdog(effective(patience, RequestFacts(local=True, input_tokens=1)))
    async with watchdog:
        watchdog.sign(Sign.CONNECTED)


def test_a_deadline_that_has_already_passed_is_no_error_of_ours() -> None:
    """P5: uvloop's handle of a time that has passed can't say when it is due."""
    uvloop.run(sign_after_the_deadline())
