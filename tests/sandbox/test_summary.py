"""The line about the sandbox: what holds, and what follows for approvals."""

from contextlib import AbstractContextManager
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from holdfast.cli.doctor.machine import sandbox as doctors_finding
from holdfast.config.settings import SandboxSettings, Settings
from holdfast.sandbox.launch import BackendName, Launch
from holdfast.sandbox.sandbox import Sandbox
from holdfast.sandbox.self_test import Held
from holdfast.sandbox.summary import is_held, sandbox_line
from sandbox.confined_world import HAS_BUBBLEWRAP

HELD = Held(
    writes=True, permissions=True, home=True, masks=True, protected=True, processes=True, network=True
)


@dataclass(frozen=True)
class _Named:
    name: BackendName

    def launch(self, *_: object, **__: object) -> AbstractContextManager[Launch]:
        raise AssertionError("nothing is started here")


def test_a_sandbox_holds_only_if_everything_does() -> None:
    """P13."""
    assert is_held(Sandbox(_Named("bubblewrap"), HELD))
    assert not is_held(Sandbox(None, HELD))
    for name in ("writes", "home", "masks", "protected", "processes", "network"):
        one_less = replace(HELD, **{name: False})
        assert not is_held(Sandbox(_Named("landlock"), one_less)), name


def test_the_line_says_what_follows_for_approvals() -> None:
    """P13."""
    good, none = Sandbox(_Named("bubblewrap"), HELD), Sandbox(why="bubblewrap is not installed.")
    weak = Sandbox(_Named("landlock"), Held(writes=True), "landlock doesn't enforce: masks.")
    assert sandbox_line(good, mode="auto", approvals="ask", network="hosts") == (
        "Commands run in a sandbox (bubblewrap) with the listed hosts alone."
    )
    asks = "workspace therefore asks like ask."
    for lacking in (none, weak):
        line = sandbox_line(lacking, mode="auto", approvals="workspace")
        assert lacking.why in line
        assert line.endswith(asks)
        assert asks not in sandbox_line(lacking, mode="auto", approvals="ask")
    assert "off" in sandbox_line(none, mode="off", approvals="workspace")


@pytest.mark.skipif(not HAS_BUBBLEWRAP, reason="bubblewrap is not installed")
def test_the_doctor_says_what_holds_here() -> None:
    """P13: also where no program is found that confines, and where that is not enough."""
    settings = Settings()
    assert doctors_finding(settings).state == "ok"
    assert doctors_finding(settings, "/nonexistent").state == "note"
    required = Settings(sandbox=SandboxSettings(mode="require"))
    assert doctors_finding(required, "/nonexistent").state == "fault"
    assert doctors_finding(Settings(sandbox=SandboxSettings(mode="off"))).state == "note"
