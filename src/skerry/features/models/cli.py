"""The parser of `skerry models`."""

from argparse import ArgumentParser

from skerry.cli.options import command, output

_RUN = "skerry.features.models.cli_run"


def add(group: ArgumentParser) -> None:
    """Adds the commands of `skerry models`."""
    add = group.add_subparsers(metavar="COMMAND", title="commands").add_parser
    listing = command(add, "list", _RUN, "list the models that can be used now")
    listing.set_defaults(action="list")
    listing.add_argument("--all", action="store_true", help="also models without a credential")
    listing.add_argument("--provider", metavar="P", help="only models of one provider")
    text = "list known models, without requests to the providers"
    listing.add_argument("--offline", action="store_true", help=text)
    output(listing)
    status = command(
        add, "status", _RUN, "show the answering model, or the reason why none answers"
    )
    status.set_defaults(action="status")
    output(status)
    use = command(
        add, "use", _RUN, "choose a model: provider/model, an alias, a GGUF file, or auto"
    )
    use.set_defaults(action="use")
    use.add_argument(
        "choice", metavar="REF_OR_FILE", help="provider/model, an alias, FILE.gguf, or auto"
    )
    use.add_argument(
        "--pin", action="store_true", help="use the file even when other models are available"
    )
    output(use)
    trust = command(add, "trust", _RUN, "use a model server found on this machine")
    trust.set_defaults(action="trust")
    trust.add_argument("server", metavar="SERVER", help="ollama, lmstudio or llamacpp")
    trust.add_argument("--withdraw", action="store_true", help="stop using it")
    output(trust)
    test = command(add, "test", _RUN, "call a model once; print its speed or the failure")
    test.set_defaults(action="test")
    test.add_argument("model", nargs="?", metavar="REF", help="provider/model or an alias")
    output(test)
