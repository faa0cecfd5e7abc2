"""Model calls: the three wires as pure code, and around them the one module that does the calling."""
