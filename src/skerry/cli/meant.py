"""Names the command that was meant, where one is written that does not exist."""

from argparse import ArgumentParser
from typing import NoReturn


class Parser(ArgumentParser):
    """A parser that names the commands near one that does not exist."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and exit with code 2."""
        import re  # noqa: PLC0415 - only after a mistake
        from difflib import get_close_matches  # noqa: PLC0415 - only after a mistake

        found = re.fullmatch(
            r"argument COMMAND: invalid choice: '(.{0,64})' \(choose from (.*)\)", message
        )
        if found is not None:
            near = get_close_matches(found[1], re.findall(r"[\w-]+", found[2]), n=1)
            meant = f" Did you mean `{self.prog} {near[0]}`?" if near else ""
            message = (
                f"there is no command `{self.prog} {found[1]}`.{meant}"
                f" `{self.prog} --help` lists all."
            )
        super().error(message)
