"""A run from its input to its outcome."""
