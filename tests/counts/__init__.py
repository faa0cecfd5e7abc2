"""What the program does, counted."""
