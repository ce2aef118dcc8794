"""`orderly bench`: options, commands, and how figures are printed; measuring is `orderly.bench`."""
