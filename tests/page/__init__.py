"""The page: its fold beside the server's, and the whole of it in a real browser."""
