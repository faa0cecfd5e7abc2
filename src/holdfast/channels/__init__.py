"""Channels: they carry messages between chat platforms and sessions."""
