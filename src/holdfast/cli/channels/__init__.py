"""The commands for chat platforms."""
