"""Commands that were judged too mildly: what they get now, and that what runs unasked shows no secret."""

from msgspec.structs import replace

from holdfast.policy.approvals import judge
from holdfast.policy.verdicts import Verdict
from holdfast.values import ApprovalMode
from policy.approval_world import (
    FACTS,
    TOO_MILD,
    Secrets,
    Shape,
    in_each_mode,
    policy,
    shapes,
    shell,
    written_down,
)

COMMANDS_MIN = 150


def judged(text: str, shape: Shape, mode: ApprovalMode) -> Verdict:
    world = replace(policy(*shape.rules, mode=mode), facts=replace(FACTS, secret_finder=Secrets()))
    return judge(shell(text), world)


def test_each_command_gets_what_was_written_down() -> None:
    """P8 P11: a rule covers no further word that writes or runs something, and no reader shows a secret."""
    corpus = shapes(TOO_MILD)
    assert sum(len(shape.commands) for shape in corpus) >= COMMANDS_MIN
    assert in_each_mode(corpus, judged) == written_down(corpus)
