"""Accounts, kept by ordered entries."""
