"""Channels on the command line: commands, the calls they make, and checks."""
