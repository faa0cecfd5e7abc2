"""Slack: its Web API and Socket Mode, and how a channel speaks them."""
