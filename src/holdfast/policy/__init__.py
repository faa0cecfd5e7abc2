"""What an agent may do: a pure decision on a parsed action."""
