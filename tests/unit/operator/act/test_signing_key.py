"""Signing keys: published before they sign, kept after they are replaced, replaced if unreadable."""

from base64 import b64encode

from penstock_operator.act.signing_key import (
    PUBLISH_SECONDS,
    RETIRE_SECONDS,
    ROTATE_SECONDS,
    decode,
    encode,
    kids,
    rotated,
)

NOW = 1_000_000.0


def test_the_first_key_signs_at_once() -> None:
    ring = rotated(None, NOW)
    assert len(ring.keys) == 1
    assert ring.signer(NOW).kid in ring.public_keys()


def test_a_young_key_is_kept() -> None:
    ring = rotated(None, NOW)
    assert kids(rotated(ring, NOW + ROTATE_SECONDS - 1).keys) == kids(ring.keys)


def test_a_new_key_is_published_before_it_signs_and_the_old_one_is_kept_for_a_day() -> None:
    old = rotated(None, NOW)
    turned = NOW + ROTATE_SECONDS
    both = rotated(old, turned)

    assert len(both.public_keys()) == 2
    assert both.signer(turned).kid == old.keys[0].signer.kid
    assert both.signer(turned + PUBLISH_SECONDS).kid == both.keys[1].signer.kid
    assert len(rotated(both, turned + RETIRE_SECONDS - 1).keys) == 2
    assert kids(rotated(both, turned + RETIRE_SECONDS).keys) == kids(both.keys[1:])


def test_keys_are_equal_after_a_round_trip_through_the_secret() -> None:
    ring = rotated(rotated(None, NOW), NOW + ROTATE_SECONDS)
    again = decode(encode(ring))
    assert again is not None
    assert again.public_keys() == ring.public_keys()
    assert [key.created for key in again.keys] == [key.created for key in ring.keys]


def test_an_unreadable_secret_is_no_key_ring() -> None:
    assert decode({}) is None
    assert decode({"keys.json": "not base64"}) is None
    assert decode({"keys.json": b64encode(b"[]").decode()}) is None
    assert decode({"keys.json": b64encode(b'[{"created": 1, "pem": "no key"}]').decode()}) is None


def test_keys_do_not_show_in_logs() -> None:
    assert "PRIVATE" not in repr(rotated(None, NOW))
