"""Descriptions of images, by a model that sees them, for models that don't."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="vision",
    events="events:EVENTS",
    folds="events:FOLDS",
    run="events:RUN",
    frames={"terminal": "events:TERMINAL"},
)
