"""Runs the commands that change the registry of the key server: accounts and their keys."""

from argparse import Namespace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from skerry_relayer.errors import MissingError
from skerry_relayer.keys.registry import Registry, is_registry

KEYS = "keys"
"""Folder of the key server in the folder of a relayer."""


def init(parsed: Namespace) -> object:
    """Makes the folder of a relayer with its registry; changes nothing if it exists."""
    for part in ("", "db", "blobs", KEYS):
        (parsed.dir / part).mkdir(mode=0o700, parents=True, exist_ok=True)
    with Registry(parsed.dir / KEYS) as registry:
        return {"dir": str(parsed.dir), "packageId": registry.package_id}


def opened(folder: Path) -> Registry:
    """Returns the registry of a relayer. Raises `MissingError` if there is none."""
    if not is_registry(folder / KEYS):
        raise MissingError(
            f"{folder} is not the folder of a relayer. Make it with `skerry relayer init`."
        )
    return Registry(folder / KEYS)


def add(parsed: Namespace) -> object:
    """Makes an account with a first key, whose private half is printed once."""
    with opened(parsed.dir) as registry:
        account = registry.add_account(parsed.label)
        return _granted(registry, account.id, parsed.label, None, None)


def grant(parsed: Namespace) -> object:
    """Adds a key to an account."""
    names = None if parsed.namespace is None else frozenset(parsed.namespace)
    with opened(parsed.dir) as registry:
        return _granted(registry, parsed.account, parsed.label, names, parsed.public_key)


def _granted(
    registry: Registry,
    account_id: str,
    label: str,
    names: frozenset[str] | None,
    public_key: str | None,
) -> dict[str, object]:
    """Adds `public_key` or a new key; returns the fields that a client needs."""
    private = None
    if public_key is None:
        key = Ed25519PrivateKey.generate()
        private = key.private_bytes_raw().hex()
        public_key = key.public_key().public_bytes_raw().hex()
    owner = next((row.owner for row in registry.accounts() if row.id == account_id), "")
    added = registry.add_delegate(account_id, public_key.lower(), label, names)
    return {
        "accountId": account_id,
        "owner": owner,
        "delegateKey": private,
        "publicKey": added.public_key,
    }


def listing(parsed: Namespace) -> object:
    """Lists accounts and keys."""
    with opened(parsed.dir) as registry:
        accounts = [
            row for row in registry.accounts() if parsed.account is None or row.id == parsed.account
        ]
    if parsed.account is not None and not accounts:
        raise MissingError(f"There is no account {parsed.account}. `key list` shows them.")
    if parsed.json:
        return [
            {
                "accountId": row.id,
                "owner": row.owner,
                "label": row.label,
                "active": row.active,
                "createdAt": row.created_at.isoformat(),
                "keys": [
                    {
                        "publicKey": key.public_key,
                        "label": key.label,
                        "address": key.address,
                        "createdAt": key.created_at.isoformat(),
                        "namespaces": None if key.namespaces is None else sorted(key.namespaces),
                    }
                    for key in row.delegates
                ],
            }
            for row in accounts
        ]
    lines = []
    for row in accounts:
        state = "" if row.active else "  (deactivated)"
        lines.append(f"{row.id}  {row.label}{state}".rstrip())
        for key in row.delegates:
            scope = "" if key.namespaces is None else f"  only {', '.join(sorted(key.namespaces))}"
            lines.append(f"  {key.public_key}  {key.label}{scope}".rstrip())
    return "\n".join(lines) or "There are no accounts. Make one with `skerry relayer account add`."


def revoke(parsed: Namespace) -> object:
    """Removes a key from an account."""
    with opened(parsed.dir) as registry:
        if not registry.revoke(parsed.account, parsed.public_key.lower()):
            raise MissingError(
                f"Account {parsed.account} has no key {parsed.public_key}. `key list` shows them."
            )
    return {"accountId": parsed.account, "publicKey": parsed.public_key, "revoked": True}


def switch(parsed: Namespace) -> object:
    """Deactivates or reactivates an account."""
    with opened(parsed.dir) as registry:
        registry.set_active(parsed.account, active=parsed.active)
    return {"accountId": parsed.account, "active": parsed.active}
