"""Tests of the fake Slack."""
