"""Tests of the fake Discord."""
