"""`python -m app` and the `unbroken` command."""

from app.cli import main as command
from app.unpacked import settle


def main() -> None:
    settle()
    command(prog_name="unbroken")


if __name__ == "__main__":
    main()
