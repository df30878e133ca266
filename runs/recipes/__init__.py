"""Recipes: fixed lists of actions, each of which solves one task."""
