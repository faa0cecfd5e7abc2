"""Tests of `holdfast chat`."""
