"""Tests of sessions over HTTP."""
