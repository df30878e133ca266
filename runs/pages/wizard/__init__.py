"""The New run wizard: five steps that fill in one run document, kept as a draft until it is launched."""
