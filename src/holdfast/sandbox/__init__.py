"""The sandbox: what a command can reach is decided by the system, not by reading the command.

`profiles` says what one command may reach, `sandbox` starts commands that way, and `self_test` shows what it
really holds. Start at `sandbox.Sandbox`.
"""
