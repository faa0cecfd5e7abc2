"""State computed from events: a log's session, runs, transcript and model context."""
