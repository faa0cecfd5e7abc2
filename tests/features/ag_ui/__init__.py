"""Tests of the AG-UI route."""
