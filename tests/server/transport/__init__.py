"""Tests of connections, bodies and limits below the routes."""
