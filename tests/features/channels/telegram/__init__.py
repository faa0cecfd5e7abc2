"""Tests of Telegram."""
