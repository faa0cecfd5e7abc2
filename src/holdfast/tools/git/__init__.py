"""Inspects repositories without running git."""
