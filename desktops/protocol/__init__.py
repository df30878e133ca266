"""What console and worker say to each other. Nothing here knows Django, a socket or a container."""
