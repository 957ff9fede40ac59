"""Accounts, logins, tokens, and who is asking."""
