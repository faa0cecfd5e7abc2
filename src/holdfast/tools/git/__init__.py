"""What git would do in a repository, read without git."""
