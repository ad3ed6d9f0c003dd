"""The one exception that the demo shows to its user as a sentence instead of a traceback."""


class DemoError(Exception):
    """Something outside the program is wrong; the text says what, where and what to do."""
