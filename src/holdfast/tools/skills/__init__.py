"""Skills: folders with instructions that the agent reads when it needs them."""
