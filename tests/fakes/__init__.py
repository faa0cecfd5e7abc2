"""Fakes of other people's platforms, and tools that crash, cancel or lose data at a chosen point."""
