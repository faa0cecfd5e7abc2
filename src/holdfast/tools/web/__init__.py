"""Fetching public pages."""
