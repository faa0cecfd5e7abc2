"""Tests of `holdfast backup` and `holdfast restore`; the drill is tests/cli/test_backup.py."""
