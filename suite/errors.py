"""Errors that end in one line for the user."""


class UserError(ValueError):
    """Something the user can mend; the message is one line that says what, where and how."""
