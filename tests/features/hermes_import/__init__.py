"""Tests of `holdfast import hermes`."""
