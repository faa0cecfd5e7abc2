"""The client against real servers on loopback."""
