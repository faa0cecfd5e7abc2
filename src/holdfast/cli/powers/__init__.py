"""The commands about what the agent has learned: its memory and its skills."""
