"""The relay: other programs' model calls, through a real server to the bad model server."""
