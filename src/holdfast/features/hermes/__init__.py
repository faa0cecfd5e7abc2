"""Session chat of hermes-agent's API server: one message and its answer, whole or as a stream."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(name="hermes", operations="bodies:OPERATIONS", routes={"chat": "chat:ChatRoutes"})
