"""The documents: they are true, and what they show runs."""
