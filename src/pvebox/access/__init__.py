"""Accounts, their privileges, and how they prove who they are."""
