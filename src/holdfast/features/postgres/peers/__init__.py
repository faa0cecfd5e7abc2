"""Questions from one server to another of those that share a store."""
