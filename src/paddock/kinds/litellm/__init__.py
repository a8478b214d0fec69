"""Agents of kind ``litellm``: the LiteLLM proxy, which serves many models at one address."""
