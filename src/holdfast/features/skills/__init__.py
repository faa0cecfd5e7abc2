"""Skills: folders with instructions that the agent reads when it needs them."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(
    name="skills",
    requires=("memory",),  # it stores agents' changes to skills
    run="run:RUN",
    opened="library:open_library",
    tools="run:tools",
    operations="bodies:OPERATIONS",
    routes={"skills": "routes:SkillRoutes"},
    commands={"skills": "commands:skills_app"},
)
