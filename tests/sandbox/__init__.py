"""The sandbox: what gets out of it, what it is shown to hold, and how commands run in it."""
