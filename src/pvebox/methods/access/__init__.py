"""API methods of accounts: users, tokens, groups, roles, ACLs and pools."""
