"""Tests of the wires and of the calls over them."""
