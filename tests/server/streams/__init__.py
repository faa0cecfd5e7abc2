"""Tests of event streams over HTTP."""
