"""Reading, searching and changing files."""
