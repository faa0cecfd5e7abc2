"""Discord as a channel."""
