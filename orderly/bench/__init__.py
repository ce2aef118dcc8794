"""A measurement of a user's own cluster: sends, consumes, and says where the time went.

`plan` says what is to be done, `run` does it, `figures` is what came out and `verdict` what bounds
it. The command is `orderly.cli.bench`.
"""
