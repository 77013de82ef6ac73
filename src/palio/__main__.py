"""``python -m palio``: the command line."""

from palio.cli.main import palio

if __name__ == "__main__":
    palio(prog_name="palio")
