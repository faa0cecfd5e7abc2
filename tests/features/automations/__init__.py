"""Triggers and webhooks over HTTP."""
