"""What decides the next action. One interface; the player does not know which it has."""
