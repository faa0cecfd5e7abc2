"""Tests of `holdfast service`."""
