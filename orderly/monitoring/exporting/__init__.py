"""What `Monitor` knows, for others: metrics, JSON over HTTP and a page. Never asks a broker."""
