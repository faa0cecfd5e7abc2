"""Tests of the approval policy."""
