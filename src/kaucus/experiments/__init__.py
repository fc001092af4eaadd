"""The tables of the papers as data, and one runner that reproduces them."""
