"""Snapshots, what differs between them, and how files are put back."""
