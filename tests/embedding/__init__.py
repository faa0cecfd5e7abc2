"""The agent inside another program."""
