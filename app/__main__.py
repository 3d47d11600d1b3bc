"""`python -m app` and the `unbroken` command."""

import sys


def main() -> None:
    try:
        from app.cli import main as command
        from app.unpacked import settle
    except KeyboardInterrupt:
        sys.exit(130)  # 128 + SIGINT, as a shell reports it; what we have for it is not there yet
    settle()
    command(prog_name="unbroken")


if __name__ == "__main__":
    main()
