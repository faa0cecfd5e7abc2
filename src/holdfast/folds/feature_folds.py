"""The fold hooks of all features, gathered from the catalog once."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.catalog import FEATURES
from holdfast.events import Event

if TYPE_CHECKING:
    from holdfast.folds.entries import Entry
    from holdfast.folds.run import Run
    from holdfast.folds.run_view import RunView
    from holdfast.interfaces.feature import FoldHooks

_HOOKS: "tuple[FoldHooks, ...]" = tuple(one.part(one.folds) for one in FEATURES.values() if one.folds)

RUN_STEPS: "Mapping[type[Event], Callable[[Run, Any], None]]" = {
    kind: step for hooks in _HOOKS for kind, step in hooks.run.items()
}
VIEW_STEPS: "Mapping[type[Event], Callable[[RunView, int, Any], Entry | None]]" = {
    kind: step for hooks in _HOOKS for kind, step in hooks.view.items()
}
TIMELINE_TEXTS: Mapping[type[Event], Callable[[Any], str]] = {
    kind: text for hooks in _HOOKS for kind, text in hooks.timeline.items()
}
ATTACHMENT_TEXTS: Mapping[type[Event], Callable[[Any], str]] = {
    kind: text for hooks in _HOOKS for kind, text in hooks.attachment_texts.items()
}
KEPT: tuple[type[Event], ...] = tuple(kind for hooks in _HOOKS for kind in hooks.kept)
_AFTER_SUMMARY = tuple(hooks.after_summary for hooks in _HOOKS if hooks.after_summary)
_RUN_FIELDS = tuple(hooks.run_fields for hooks in _HOOKS if hooks.run_fields)


def after_summary(kept: Sequence[Event]) -> list[str]:
    """Return the texts that follow a summary of the conversation, from the kept events before it."""
    return [text for add in _AFTER_SUMMARY if (text := add(kept))]


def run_fields(run: "Run") -> dict[str, Any]:
    """Return the fields of a run that features fill in, for HTTP bodies."""
    return {name: value for fields in _RUN_FIELDS for name, value in fields(run).items()}
