"""Runs over HTTP."""
