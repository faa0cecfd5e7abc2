"""The servers that the tests start, each a script of its own."""
