"""Telegram: its Bot API, and how a channel speaks it."""
