"""One line about the sandbox, for people and for the model."""

from holdfast.sandbox.profile import NetworkAccess, SandboxMode
from holdfast.sandbox.sandbox import Sandbox
from holdfast.values import ApprovalMode

_NETWORK: dict[NetworkAccess, str] = {
    "off": "no network",
    "hosts": "the listed hosts alone",
    "on": "the whole network",
}

_REACHED: dict[NetworkAccess, str] = {
    "off": "no host",
    "hosts": "only the configured hosts",
    "on": "the network",
}


def is_held(sandbox: Sandbox) -> bool:
    """Whether the self-test showed that everything holds."""
    return sandbox.confines is not None and all(
        getattr(sandbox.held, name) for name in sandbox.held.__struct_fields__
    )


def sandbox_facts(sandbox: Sandbox, *, network: NetworkAccess) -> str:
    """Describe the sandbox for the model."""
    if sandbox.confines is None:
        return "none. Commands can do whatever the user can."
    return f"on. Commands can change only the workspace, and can reach {_REACHED[network]}."


def sandbox_line(
    sandbox: Sandbox, *, mode: SandboxMode, approvals: ApprovalMode, network: NetworkAccess = "off"
) -> str:
    """Describe what the sandbox protects here, and the effect on approvals."""
    if mode == "off":
        return "The sandbox is off: commands that run can do whatever you can."
    if is_held(sandbox):
        return f"Commands run in a sandbox ({sandbox.backend}) with {_NETWORK[network]}."
    asks = " The mode workspace therefore asks like ask." if approvals == "workspace" else ""
    if sandbox.confines is None:
        return f"There is no sandbox on this machine. {sandbox.why}{asks}".strip()
    return f"The sandbox ({sandbox.backend}) doesn't hold everything here. {sandbox.why}{asks}".strip()
