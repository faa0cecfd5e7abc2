"""Tests of the pure decisions about model calls."""
