"""Tests of who may call the server."""
