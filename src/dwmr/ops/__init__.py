"""What makes training fast. Each piece gives the results of its plain twin, and a test holds them together."""
