"""The interfaces of the program, each with its contract."""
