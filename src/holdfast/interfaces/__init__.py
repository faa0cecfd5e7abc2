"""The seams of the program, each with its contract."""
