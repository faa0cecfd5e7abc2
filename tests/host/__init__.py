"""Tests of what builds the program and of the process it runs in."""
