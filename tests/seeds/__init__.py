"""The behaviours that started this project, shown over real sockets and real processes."""
