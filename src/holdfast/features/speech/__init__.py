"""Voice notes: audio in messages is transcribed, by a command or a target, before the model reads it."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="speech",
    events="events:EVENTS",
    folds="events:FOLDS",
    run="events:RUN",
    frames={"terminal": "events:TERMINAL"},
    opened="transcribing:open_speech",
    needs="speech.is_on",
    doctor="transcribing:check_speech",
)
