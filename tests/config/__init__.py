"""Tests of the settings: where they come from, how they are checked and trusted."""
