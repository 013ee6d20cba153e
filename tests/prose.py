"""Reading text that is broken into lines of a width."""


def unbroken(text: str) -> str:
    return " ".join(text.split())
