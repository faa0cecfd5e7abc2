"""What git would do in a repository, found out without running git."""
