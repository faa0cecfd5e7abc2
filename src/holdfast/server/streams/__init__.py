"""Streams of events over HTTP: native, hermes and JSON polling."""
