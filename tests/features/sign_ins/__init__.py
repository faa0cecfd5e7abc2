"""Tests of sign-ins for models."""
