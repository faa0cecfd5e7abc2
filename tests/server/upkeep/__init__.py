"""Tests of what the server does by itself."""
