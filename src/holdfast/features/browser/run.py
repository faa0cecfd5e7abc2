"""Closes a run's browser before the run ends."""

from typing import TYPE_CHECKING, cast

from holdfast.interfaces.feature import RunContext, RunHooks
from holdfast.values import Outcome

if TYPE_CHECKING:
    from holdfast.features.browser.tools import BrowserTools


async def _ending(context: RunContext, outcome: Outcome, seconds: float | None) -> None:
    del outcome
    tools = context.deps.session_tools.get("browser")
    if tools is not None and seconds is not None:
        await cast("BrowserTools", tools).close(context.log.run_id)


RUN = RunHooks(ending=_ending)
