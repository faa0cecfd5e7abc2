"""Tests of runs over HTTP."""
