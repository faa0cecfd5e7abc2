"""Commands that were judged too mildly: what they get now, and that what runs unasked shows no secret."""

from dataclasses import replace

import pytest

from holdfast.policy.approvals import judge
from holdfast.policy.verdicts import Allow, Deny, Verdict
from holdfast.values import ApprovalMode
from policy.approval_world import FACTS, TOO_MILD, Secrets, Shape, named, policy, shapes, shell

COMMANDS_MIN = 150


def judged(text: str, shape: Shape, *, mode: ApprovalMode) -> Verdict:
    world = replace(policy(*shape.rules, mode=mode), facts=replace(FACTS, secret_finder=Secrets()))
    return judge(shell(text), world)


@pytest.mark.parametrize("shape", shapes(TOO_MILD), ids=lambda shape: shape.name)
def test_each_command_gets_what_was_written_down(shape: Shape) -> None:
    """P8 P11: a rule covers no further word that writes or runs something, and no reader shows a secret."""
    for command in shape.commands:
        found = judged(command, shape, mode="ask")
        assert named(found) == shape.ask, f"{command!r} in mode ask: {found}"
        found = judged(command, shape, mode="allow-workspace")
        assert named(found) == shape.workspace, f"{command!r} in mode allow-workspace: {found}"
        found = judged(command, shape, mode="unattended")
        assert isinstance(found, Allow if shape.ask == "allow" else Deny), f"{command!r} unattended: {found}"


def test_there_are_many_of_them() -> None:
    assert sum(len(shape.commands) for shape in shapes(TOO_MILD)) >= COMMANDS_MIN
