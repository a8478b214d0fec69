"""The conversation of ``paddock init``: questions, what is asked of a place and a model, and the files it writes."""
