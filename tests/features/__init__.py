"""Tests of features, a folder for each."""
