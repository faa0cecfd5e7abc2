"""Tests over real HTTP."""
