"""Banner of a gateway that is ready: the address of the page, the chat command, the model."""

from skerry.infra.called import command as called
from skerry.ports.model import ModelState, ModelStatus


def greeting(status: ModelStatus, port: int, token: str | None = None) -> str:
    """Returns the lines for a person; the first is `ready ws://127.0.0.1:PORT`, for programs.

    Args:
        status: State of the present model.
        port: Port of the gateway.
        token: Token for the address of the page, at the first start; None to name the command that
            shows it.
    """
    command = called()
    page = f"http://127.0.0.1:{port}/"
    lines = [
        f"ready ws://127.0.0.1:{port}",
        "",
        f"  Page    {page}#token={token}"
        if token
        else f"  Page    {page} (open it: {command} open)",
        f"  Chat    {command} chat",
    ]
    if status.model is not None:
        lines.append(f"  Model   {status.model.name} ({status.model.ref})")
    else:
        lines.append("  Model   none can be used yet")
    lines += [f"          {text}" for text in (status.message, status.remedy) if text]
    for offer in status.offers:
        lines += [f"  Found   {offer.text}", f"          Use it? {command} models trust {offer.id}"]
    if status.state is ModelState.UNAVAILABLE or not (status.model and status.model.supports_tools):
        lines += [
            "  Better  enter a provider's key on the page, under Model; or, with a file you have:",
            f"          {command} models use FILE.gguf",
        ]
    return "\n".join(lines)
