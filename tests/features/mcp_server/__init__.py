"""Tests of the Model Context Protocol server."""
