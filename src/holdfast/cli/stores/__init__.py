"""Commands that work on a whole store."""
