"""Channels over HTTP: for people who look after them, and for platforms that deliver updates."""
