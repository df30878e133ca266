"""The three ways in which a check does not simply give a figure."""


class ArtefactMissing(Exception):
    """The desktop holds no such thing: an honest reward of 0, and the message is the evidence."""


class Unreadable(Exception):
    """The desktop made a file that is not what its name says: an honest reward of 0 as well."""


class CheckerBroken(Exception):
    """The checker itself could not do its work: no verdict at all."""
