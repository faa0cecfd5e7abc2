"""The distributions: what they hold, and that they work where they are installed."""
