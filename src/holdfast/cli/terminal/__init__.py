"""What a terminal shows, and how."""
