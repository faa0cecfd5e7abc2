"""Servers that misbehave on purpose."""
