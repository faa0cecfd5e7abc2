"""Tests of the agent of an editor."""
