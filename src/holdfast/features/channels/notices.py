"""Computes notices for a chat during a run: its budget is running out, or a crash delayed it.

Pure: logs in, intents out. Each notice has a unique key, so it's sent once. Retried model calls cause no
notice.
"""

from collections.abc import Iterator

from holdfast import events as e
from holdfast.features.channels.deliveries import delivery_for, unanswered
from holdfast.features.channels.state import ChannelState
from holdfast.folds.phases import Phase
from holdfast.folds.run import Run
from holdfast.folds.session_fold import SessionReadModel
from holdfast.values import Budget

BUDGET, RESUMED = "budget", "resumed"
WARN_AT = 0.8  # of the budget
NOTICED_MS = 60_000  # shorter downtimes aren't worth a notice


def notices(
    channel: ChannelState, session_id: str, session: SessionReadModel, *, budget: Budget, now_ms: int
) -> list[e.Event]:
    """Return the notices to append to the channel's log. `budget` is the server's limit for every run.

    Runs of schedules and webhooks cause no notices, because no one is waiting for them.
    """
    found: dict[str, e.DeliveryIntended] = {}
    for accepted in unanswered(channel, session_id):
        if accepted.is_from_elsewhere:
            continue
        message = session.session.inbox.messages.get(accepted.message_id)
        run = session.session.runs.get(message.run_id) if message is not None else None
        if run is None or run.phase is Phase.ENDED:
            continue
        for name, body in _of_run(run, budget):
            intended = delivery_for(accepted, run.run_id, now_ms=now_ms, message=name, body=body)
            found[intended.key] = intended
    return [one for key, one in found.items() if key not in channel.outbox.deliveries]


def _of_run(run: Run, budget: Budget) -> Iterator[tuple[str, str]]:
    if used := _nearly_used(run, (run.settings.budget or Budget()).within(budget)):
        yield (
            BUDGET,
            (f"This run has used more than {WARN_AT:.0%} of {used}. It stops when the budget is used up."),
        )
    if run.down_ms >= NOTICED_MS:
        minutes = max(1, round(run.down_ms / 60_000))
        for_how_long = "a minute" if minutes == 1 else f"{minutes} minutes"
        yield RESUMED, f"The server was down for {for_how_long}. The run continues now."


def _nearly_used(run: Run, budget: Budget) -> str:
    """Describe the part of the budget that is nearly used up, or return ""."""
    children = run.used_by_children
    cost_usd = run.known_cost_usd + children.cost_usd
    tokens = run.usage.input_tokens + run.usage.output_tokens + children.input_tokens + children.output_tokens
    if budget.cost_usd and cost_usd >= WARN_AT * budget.cost_usd:
        return f"its budget of {budget.cost_usd:g} USD"
    if budget.tokens and tokens >= WARN_AT * budget.tokens:
        return f"its budget of {budget.tokens:,} tokens"
    return ""
