"""Code that runs on machines, many parts of it as root. It imports only the standard library and itself."""
