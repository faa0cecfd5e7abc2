"""Matrix: unencrypted rooms of a homeserver."""
