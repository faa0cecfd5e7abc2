"""Automations: triggers that start runs on a schedule, by webhook or after another run."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="automations",
    requires=("channels",),  # results go to their outbox
    events="events:EVENTS",
    operations="operations:OPERATIONS",
    routes={"triggers": "routes:TriggerRoutes", "jobs": "jobs:JobRoutes", "hooks": "hooks:HookRoutes"},
    owners={"trigger": "owner:own"},
    sessions_in_use="owner:sessions_in_use",
    tools="tool:tools",
    commands={"triggers": "commands:triggers_app"},
    doctor="doctor:held",
)
