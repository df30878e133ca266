"""Engines: what makes and removes desktops on this machine. `base` has the protocol that each one keeps."""
