"""A run from its input to its one true ending."""
