"""`python -m app` and the `unbroken` command."""

from app.cli import main

if __name__ == "__main__":
    main()
