"""
``uns``: the commands, and how each of them ends.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version

from cyclopts import App, CycloptsError

from uns.entrypoints.cli import notifications, recovery, serve, worker
from uns.entrypoints.cli.exits import Exit, Failed, Usage, status_of
from uns.entrypoints.cli.output import say
from uns.ports.errors import UnsError

HELP = """\
The Unified Notification Service.

Commands go to the service at UNS_URL, with the key in UNS_API_KEY; without UNS_URL they work on
the database at UNS_DATABASE_URL (sqlite:///uns.db).

Exit status: 0 done, 1 failed, 2 wrong use, 3 refused by the service.
"""


def make_app() -> App:
    """
    The commands.
    """
    app = App(name="uns", help=HELP, version=lambda: version("uns"))
    for module in (serve, worker, notifications, recovery):
        module.register(app)
    return app


def main(tokens: Sequence[str] | None = None) -> int:
    """
    Run one command; its exit status.
    """
    try:
        status = make_app()(tokens, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        say(" ".join(str(error).split()) + " (--help shows what there is)")
        return Exit.USAGE
    except (Usage, Failed, UnsError) as error:
        say(str(error))
        return status_of(error)
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except BrokenPipeError:  # whoever reads has seen enough
        sys.stderr.close()
        return Exit.FAILED
    return int(status or Exit.DONE)
