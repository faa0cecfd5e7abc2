"""Import from hermes-agent and its web UI: settings, keys, sessions, memory, skills and jobs."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="hermes_import",
    requires=("automations", "memory", "skills", "transcripts", "profiles", "sign_ins"),
    commands={"import": "commands:import_app"},
)
