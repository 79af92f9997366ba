"""Errors that end in one line for the user."""


class UserError(ValueError):
    """Something the user can mend; the message is one line that says what, where and how."""


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
