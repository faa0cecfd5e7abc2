"""What agents have learned, as HTTP sees it: memories and skills."""
