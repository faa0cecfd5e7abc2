"""Tests of the routes for clients of hermes-agent."""
