"""Desktops straight on runc, so that a live one can be saved and restored; images come from the container engine."""
