"""Tests of the fake Telegram."""
