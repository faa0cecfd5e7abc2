"""Where commands run: what they can reach, and what they changed that nobody approved."""
