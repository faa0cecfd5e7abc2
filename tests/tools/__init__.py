"""Tests of the tools, against real processes, files and servers."""
