"""The limits of the sandbox, and those that a command asks to lift."""

from collections.abc import Iterator
from typing import Literal, TypeAlias, get_args

from msgspec import Struct

from holdfast.interfaces.workspace_paths import is_within
from holdfast.policy.verdicts import FindingKind, PolicyFinding
from holdfast.values import Lift

NamedReach: TypeAlias = Literal["off", "hosts", "on"]

# What a rule says to ask about, what leaves the sandbox and what it can't hold is asked about inside it too.
_ALWAYS_ASKED: frozenset[FindingKind] = frozenset(("rule", "lift", "shortfall"))
_INSIDE: frozenset[FindingKind] = frozenset(get_args(FindingKind)) - _ALWAYS_ASKED


class Containment(Struct, frozen=True):
    """The sandbox's known limits for commands in a workspace.

    `held` means that the self-test showed it: secret files can't be read, protected files can't be changed,
    other processes can't be reached, and neither can the network beyond what is configured.
    """

    held: bool = False
    network: NamedReach = "off"

    def covers(self, finding: PolicyFinding, lift: Lift) -> bool:
        """Whether the sandbox prevents what a finding is about."""
        if not self.held or lift.everything or finding.escapes:
            return False
        if finding.kind == "network" and self.network == "on":
            return False
        return finding.kind in _INSIDE


def why_not_given(path: str) -> str:
    """Why a command can't be given this path of the system, links resolved; empty if it can."""
    if path == "/":
        return "/ is the whole system; list the folders you need"
    if is_within(path, "/proc"):
        return f"can't expose {path}: sandboxed commands have their own /proc"
    if is_within(path, "/dev") and not is_within(path, "/dev/shm"):  # noqa: S108 - not a temporary file
        return f"can't expose {path}: sandboxed commands can't use devices"
    return ""


def lift_findings(lift: Lift, workspace: str) -> Iterator[PolicyFinding]:
    """One reason to ask for each thing that is lifted."""
    if lift.everything:
        yield _lifted("It runs without the sandbox: it can do whatever you can.")
        return
    if lift.network:
        yield _lifted("It can connect to every host. Whatever it can read, it can send away.")
    elif lift.hosts:
        yield _lifted(f"It can connect to {', '.join(lift.hosts)}. Whatever it can read, it can send there.")
    for path in lift.write:
        yield _lifted(f"It can change {path}, which {_why(path, workspace)}.")
    for path in lift.read:
        where = "may hold secrets" if is_within(path, workspace) else "is outside the workspace"
        yield _lifted(f"It can read {path}, which {where}.")


def _why(path: str, workspace: str) -> str:
    inside = is_within(path, workspace)
    return "other programs run or obey later" if inside else "is outside the workspace"


def _lifted(text: str) -> PolicyFinding:
    return PolicyFinding("lift", text)


def is_within_lift(wanted: Lift, granted: Lift) -> bool:
    """Whether a grant lifts everything that is wanted."""
    if granted.everything:
        return True
    return (
        not wanted.everything
        and (granted.network or (not wanted.network and set(wanted.hosts) <= set(granted.hosts)))
        and _are_within(wanted.write, granted.write)
        and _are_within(wanted.read, granted.read)
    )


def _are_within(paths: tuple[str, ...], roots: tuple[str, ...]) -> bool:
    return all(any(is_within(path, root) for root in roots) for path in paths)


def describe_lift(lift: Lift) -> str:
    """Describe the lifted limits in a few words; empty if there are none."""
    if lift.everything:
        return "without the sandbox"
    parts = ["every host"] if lift.network else list(lift.hosts)
    said = [f"connecting to {', '.join(parts)}"] if parts else []
    said += [f"changing {', '.join(lift.write)}"] if lift.write else []
    said += [f"reading {', '.join(lift.read)}"] if lift.read else []
    return " and ".join(said)
