"""Memories and skills over HTTP."""
