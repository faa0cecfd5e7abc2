"""The session options of the protocol: the mode and the model."""

from collections.abc import Mapping
from typing import Literal

from acp.schema import (
    CurrentModeUpdate,
    SessionConfigOptionBoolean,
    SessionConfigOptionSelect,
    SessionConfigSelectOption,
    SessionMode,
    SessionModeState,
)

DEFAULT = "default"
MODE: Literal["mode"] = "mode"
MODEL: Literal["model"] = "model"
MODES: Mapping[str, tuple[str, str]] = {
    DEFAULT: ("As configured", "Approvals work as in Holdfast's own configuration."),
    "plan": ("Plan first", "The agent only reads until you accept its plan."),
    "ask": ("Ask", "Every change needs your approval."),
    "edits": ("Allow edits", "Edits of workspace files that undo covers don't need approval."),
    "workspace": ("Allow in the workspace", "Anything the sandbox contains runs without approval."),
    "unattended": ("Never ask", "Anything that needs approval is denied."),
}

Option = SessionConfigOptionSelect | SessionConfigOptionBoolean


def named(choice: str) -> str:
    """A choice as editors name it; the server's own choice is an empty text."""
    return choice or DEFAULT


def chosen(value: str) -> str:
    """Translate an editor's choice for the server."""
    return "" if value == DEFAULT else value


def mode_state(mode: str) -> SessionModeState:
    """The modes, and the one that the session has."""
    modes = [SessionMode(id=one, name=name, description=text) for one, (name, text) in MODES.items()]
    return SessionModeState(current_mode_id=named(mode), available_modes=modes)


def mode_update(mode: str) -> CurrentModeUpdate:
    """That the session has another mode now."""
    return CurrentModeUpdate(session_update="current_mode_update", current_mode_id=named(mode))


def options(*, mode: str, model: str, models: Mapping[str, str]) -> list[Option]:
    """The same choices for editors that show options instead of modes."""
    names = {one: name for one, (name, _) in MODES.items()}
    if model and model not in models:
        models = {**models, model: model}  # a model that is no longer configured, or has another name here
    return [
        _select(MODE, "Mode", current=named(mode), choices=names),
        _select(MODEL, "Model", current=named(model), choices={DEFAULT: "Default", **models}),
    ]


def _select(
    option_id: Literal["mode", "model"], name: str, *, current: str, choices: Mapping[str, str]
) -> Option:
    return SessionConfigOptionSelect(
        type="select",
        id=option_id,
        name=name,
        category=option_id,
        current_value=current,
        options=[SessionConfigSelectOption(value=value, name=shown) for value, shown in choices.items()],
    )
