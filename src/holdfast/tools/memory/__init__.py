"""Memory: what agents remember between conversations, kept as logs of their own."""
