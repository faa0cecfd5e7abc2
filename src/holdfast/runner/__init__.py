"""Who runs the runs: the inbox takes what people send, the supervisor owns every task."""
