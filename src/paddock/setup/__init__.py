"""The conversation of ``paddock init``: questions, requests to a place and a model, and the files it writes."""
