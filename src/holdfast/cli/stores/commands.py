"""The commands that check a store."""

import typer

from holdfast.cli.options import Config, DataDir

store_app = typer.Typer(help="Check or copy a store.", no_args_is_help=True)


@store_app.command("check", short_help="Check every log and blob, and show how to repair the store.")
def store_check(data_dir: DataDir = None, config: Config = None) -> None:
    """Verify every event and blob, apply every log as a server does, and show how to repair the store.

    Changes nothing. Servers can be running. Exit codes: 0 intact, 1 faults, 2 usage error.
    """
    from holdfast.cli.stores.check import check

    raise typer.Exit(check({"data_dir": data_dir, "config": config}))


def upgrade_check(data_dir: DataDir = None, config: Config = None) -> None:
    """Check whether this version can use the data of your current one.

    Run it with the new version before you install it, for example with `uvx holdfast@VERSION upgrade-check`.
    It reads the configuration and every log, and changes nothing. Exit codes: 0 yes, 1 no, 2 usage error.
    """
    from holdfast.cli.stores.check import upgrade_check as check

    raise typer.Exit(check({"data_dir": data_dir, "config": config}))
