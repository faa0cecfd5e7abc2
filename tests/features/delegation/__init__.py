"""Tests of sub-agents."""
