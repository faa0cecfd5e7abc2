"""Tests of files over HTTP."""
