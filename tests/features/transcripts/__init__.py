"""Tests of imports from Claude Code and Codex."""
