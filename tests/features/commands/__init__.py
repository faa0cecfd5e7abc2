"""Tests of commands that users write."""
