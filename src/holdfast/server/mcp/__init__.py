"""The agent as a server of the Model Context Protocol, for other agents and for editors."""
