"""The agent that runs inside a desktop and answers for it. It knows nothing of what is outside.

It runs with Debian's Python and Debian's packages, copied into the image as it is here: it must not
import anything
else of this repository.
"""
