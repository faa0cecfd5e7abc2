"""Builds the program: one place puts store, targets, tools, policy and server together."""
