"""`holdfast acp`: Holdfast as the agent of an editor, over the Agent Client Protocol."""
