"""Tests of the bad model server and its companions."""
