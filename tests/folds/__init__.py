"""Tests of the folds: what a log says, as data."""
