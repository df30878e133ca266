"""Sets of rollouts with one identity each, a pinned judge, and a seal."""
