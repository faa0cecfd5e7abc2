"""Holdfast on standard input and output, for programs that start it themselves."""
