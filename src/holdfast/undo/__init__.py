"""Snapshots of workspaces, what runs changed in them, and how to take that back."""
