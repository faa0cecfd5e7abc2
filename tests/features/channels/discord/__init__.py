"""Tests of Discord."""
