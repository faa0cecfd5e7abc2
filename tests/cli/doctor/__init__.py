"""Tests of `holdfast doctor`."""
