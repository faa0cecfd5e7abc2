"""Tests of plans and goals."""
