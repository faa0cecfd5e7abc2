"""What all model calls share."""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files

from holdfast.decisions.silent_rejects import SilentReject, load_silent_rejects
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import Blobs
from holdfast.models.http import ModelHttp
from holdfast.models.prices import Prices
from holdfast.models.target_states import TargetStates

SILENT_REJECTS = load_silent_rejects((files("holdfast.models") / "silent_rejects.toml").read_text("utf-8"))
HEDGE_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class CallDeps:
    """What all calls share."""

    http: ModelHttp
    shared: TargetStates
    blobs: Blobs
    clock: Clock
    random: Callable[[], float]
    unattended: bool = False
    prices: Prices = field(default_factory=Prices)
    silent_rejects: tuple[SilentReject, ...] = SILENT_REJECTS
    hedge_share: float = HEDGE_SHARE  # of the first-event patience, after which another target is asked too
