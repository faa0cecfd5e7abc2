"""Profiles: separate agents in one installation, each with its own configuration and data."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="profiles",
    commands={"profiles": "commands:profiles_app"},
    work="serving:serve_profiles",
    models="models:ProfileModels",
)
