"""State computed from events: what a log says of its session, its runs, its transcript and its context."""
