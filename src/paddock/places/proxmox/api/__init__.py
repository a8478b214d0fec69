"""The API of a node: the HTTP gate, its trust, its errors."""
