"""The store: its conformance suite, and what it does when disks, processes and callers fail it."""
