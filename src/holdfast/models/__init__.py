"""Model calls: three wire formats as pure code, and the connections, deadlines and retries around them."""
