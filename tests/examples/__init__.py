"""A package, so that its broker ends with its last test and not with the whole run."""
