"""Tests of Slack."""
