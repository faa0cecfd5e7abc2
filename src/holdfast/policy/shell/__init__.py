"""Reads shell commands for the approval policy, without running anything."""
