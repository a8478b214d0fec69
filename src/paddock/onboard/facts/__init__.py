"""Programs that collect facts for ``verify`` and judge nothing."""
