"""Task sets: our own, and those imported from OSWorld's checkout. Pure functions, no database."""
