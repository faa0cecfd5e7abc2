"""Who runs the runs: stops, steers, drains, crashes and restarts."""
