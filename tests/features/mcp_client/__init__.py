"""Tests of the MCP client, against real server processes."""
