"""Tests of the agent: runs with tools, approvals and crashes."""
