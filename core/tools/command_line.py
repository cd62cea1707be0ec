"""The command line ``core``; every command is a thin shell around a module that does the work."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from core.foundation.errors import CoreError, CoreWarning
from core.foundation.folders import cache_folder
from core.foundation.lazy_import import load
from core.foundation.settings import SETTINGS, origin, settings, unknown_variables
from core.tools import report_cache, report_devices
from core.tools.tables import show

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def _print_versions(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        click.echo("\n".join(report_devices.version_lines()))
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Versions of core and of all plugins.",
)
def cli() -> None:
    """Tensor programs, compiled to native code on whatever device a plugin brings."""


@cli.command()
@json_option
@click.option("--probe", is_flag=True, help="Look for hardware again, whatever is remembered.")
def devices(as_json: bool, probe: bool) -> None:
    """List devices: plugin, version, status, and which one is the default and why."""
    rows = report_devices.device_rows(renew=probe)
    show("devices", rows, as_json=as_json)
    default, why = report_devices.default_device()
    if not default:
        click.echo(f"no default device: {why}", err=True)


@cli.command()
@click.argument("device", required=False, default="")
@json_option
def doctor(device: str, as_json: bool) -> None:
    """Check the installation, and DEVICE or all devices: what works, why not, what to do.

    Ends with status 1 if DEVICE, or without it core itself, fails a check.
    """
    rows = report_devices.doctor_rows(device)
    show("doctor", rows, as_json=as_json)
    of = device.upper() or "core"
    sys.exit(any(row["result"] == "failed" for row in rows if row["of"] == of))


@cli.command(name="settings")
@json_option
def list_settings(as_json: bool) -> None:
    """List every setting with its value, where the value comes from, and what it does."""
    rows = [
        {
            "setting": name,
            "value": getattr(settings, name),
            "origin": origin(name),
            "default": row.default,
            "variable": row.variable + (f" or {row.alias}" if row.alias else ""),
            "meaning": row.text,
        }
        for name, row in SETTINGS.items()
    ]
    show("settings", rows, as_json=as_json)
    for variable, near in unknown_variables().items():
        hint = f"; did you mean {near}?" if near else ""
        click.echo(f"{variable} is set but is no setting of core{hint}", err=True)


@cli.command()
@click.option("--clear", is_flag=True, help="Delete everything in it.")
@json_option
def cache(clear: bool, as_json: bool) -> None:
    """Show the folder of the disk cache and its size, or clear it."""
    folder = cache_folder()
    size = report_cache.clear(folder) if clear else report_cache.measure(folder)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "cleared": clear, **asdict(size)}))
    else:
        done = "cleared of " if clear else ""
        click.echo(f"{folder}: {done}{size.files} files, {size.size_bytes / 1e6:.1f} MB")


@cli.command()
@click.option("--size", is_flag=True, help="Print the compiler's size in lines instead.")
@json_option
def passes(size: bool, as_json: bool) -> None:
    """List the passes of the compiler in order, with the reason why each stands where it does."""
    report = load("core.tools.report_passes")
    if size:
        show("lines of the compiler", report.size_rows(), as_json=as_json)
    else:
        show("passes", report.pass_rows(), as_json=as_json)


@cli.command(context_settings={"allow_interspersed_args": False})
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--only", default="", help="Show only passes whose name contains this.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def explain(file: str, only: str, arguments: tuple[str, ...]) -> None:
    """Run a Python FILE and show what each compiler pass made of its tensor programs.

    What stands behind FILE are the arguments of the program.
    """
    load("core.tools.explain:explain_file")(file, arguments=list(arguments), only=only)


@cli.command()
@click.option("--seed", default=0, show_default=True, help="Seed of weights and batches.")
@json_option
def demo(seed: int, as_json: bool) -> None:
    """Train a small convolutional network on handwritten digits; prints its test accuracy."""
    load("core.tools.demo:run_demo")(seed=seed, as_json=as_json)


@cli.command()
@click.argument("device")
@click.option("--level", default="L5", show_default=True,
              type=click.Choice(["L0", "L1", "L2", "L3", "L4", "L5"]),
              help="Highest level that is run: L0 contract, L1 memory, L2 every op in every dtype, "
                   "L3 code generation, L4 copies and command lists, L5 whole models.")
@click.option("--json", "json_file", default="", type=click.Path(dir_okay=False),
              help="Write the report as JSON.")
@click.option("--markdown", "markdown_file", default="", type=click.Path(dir_okay=False),
              help="Write the table of ops and dtypes as Markdown.")
@click.option("--jobs", default=0, help="Processes; 0: one per core, four at most.")
@click.option("--only", default="", help="Run only cases whose name contains this (pytest -k).")
def conformance(
    device: str, level: str, json_file: str, markdown_file: str, jobs: int, only: str
) -> None:
    """Check that DEVICE keeps the contract and computes what core means, against REFERENCE.

    Ends with status 1 if a case fails that the plugin's conformance.toml does not list, or if one
    passes that it does list.
    """
    run = load("core.tools.report_conformance:run_conformance")
    sys.exit(run(device, level, json_file=json_file, markdown_file=markdown_file, jobs=jobs,
                 only=only))


@cli.group()
def plugin() -> None:
    """Write a plugin, check its source, list those that are installed."""


@plugin.command(name="new")
@click.argument("name")
@click.option("--path", default=".", show_default=True, help="Folder that its files go into.",
              type=click.Path(file_okay=False))
def new_plugin(name: str, path: str) -> None:
    """Write the distribution core-plugin-NAME, whose device NAME works, into a folder."""
    for file in load("core.tools.plugin_scaffold:new_plugin")(name, Path(path)):
        click.echo(file)


@plugin.command(name="check")
@click.argument("folder", type=click.Path(exists=True, file_okay=False))
@json_option
def check_plugin(folder: str, as_json: bool) -> None:
    """Check the source of the plugin in FOLDER; `core conformance` tries what it computes."""
    rows = load("core.tools.plugin_scaffold_check:check_plugin")(Path(folder))
    show("check", [asdict(row) for row in rows], as_json=as_json)
    sys.exit(any(row.result == "failed" for row in rows))


@plugin.command(name="list")
@json_option
def list_plugins(as_json: bool) -> None:
    """List the distributions that plug into core; `core devices` says what state they are in."""
    rows = load("core.tools.plugin_scaffold_check:plugin_rows")()
    show("plugins", rows, as_json=as_json)
    if not rows:
        click.echo("no plugin is installed", err=True)


def main(arguments: list[str] | None = None) -> Any:
    """Entry point of the console script; errors of core are shown without a traceback."""
    try:
        return cli.main(arguments, prog_name="core")
    except (CoreError, CoreWarning) as error:
        if settings.DEBUG:
            raise
        click.echo(f"core: {error}", err=True)
        sys.exit(1)
