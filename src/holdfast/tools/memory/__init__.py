"""Agents' memories between conversations, stored as separate logs."""
