"""The LiteLLM proxy: one door to many models."""
