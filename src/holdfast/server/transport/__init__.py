"""Connections, headers, bodies and limits below the routes."""
