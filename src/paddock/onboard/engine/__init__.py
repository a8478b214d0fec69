"""The container of an agent in Docker or Podman, and its images."""
