"""Model calls over real sockets, against the bad model server."""
