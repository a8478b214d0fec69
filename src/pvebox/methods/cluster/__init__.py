"""API methods of the cluster and its nodes."""
