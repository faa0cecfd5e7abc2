"""The agent that a Python program uses: `Agent`, its runs, sessions, results and errors."""
