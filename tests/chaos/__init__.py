"""Tests of the faulty model server."""
