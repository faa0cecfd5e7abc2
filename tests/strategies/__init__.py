"""Hypothesis strategies: events of any kind, and logs that a correct writer could have written."""
