"""What keeps two runs, or a late one, from doing harm."""
