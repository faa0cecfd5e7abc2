"""The agent of an editor, over the Agent Client Protocol."""

from holdfast.interfaces.feature import Feature

FEATURE = Feature(name="acp", commands={"acp": "commands:acp"})
