"""Runs the runs: the inbox stores what people send, and the supervisor owns every task."""
