"""`BlockManager`: every block is in one state, and a hash finds the block that was published under it."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock_runtime.engine.continuous.scheduler.block_manager import BlockManager, BlocksExhausted
from penstock_runtime.engine.continuous.scheduler.prefix_cache import (
    HashChain,
    child_hash,
    root_hash,
)

ROOT = root_hash("revision")


def names_of(*texts: str) -> list[bytes]:
    return [child_hash(ROOT, [ord(letter) for letter in text]) for text in texts]


def test_a_released_block_is_free_unless_it_was_published() -> None:
    ledger = BlockManager(4)
    first, second = ledger.allocate(2)
    ledger.publish(first, names_of("a")[0])
    ledger.release([first, second])
    assert (ledger.free, ledger.used, len(ledger.prefix.evictable)) == (3, 0, 1)


def test_what_was_published_is_found_and_shared() -> None:
    ledger = BlockManager(4)
    (block,) = ledger.allocate(1)
    names = names_of("a", "b")
    ledger.publish(block, names[0])
    ledger.release([block])
    assert ledger.prefix.find(names) == [block]
    ledger.share([block])
    assert (ledger.used, len(ledger.prefix.evictable)) == (1, 0)


def test_two_sequences_hold_a_block_until_both_let_go() -> None:
    ledger = BlockManager(2)
    blocks = ledger.allocate(1)
    ledger.share(blocks)
    assert ledger.count_unrecoverable(blocks) == 0
    ledger.release(blocks)
    assert ledger.used == 1
    ledger.release(blocks)
    assert ledger.free == 2


def test_the_least_recently_used_is_given_up_first_and_of_one_sequence_its_tail() -> None:
    ledger = BlockManager(4)
    old, new = ledger.allocate(2), ledger.allocate(2)
    names = names_of("a", "b", "c", "d")
    for block, name in zip(old + new, names, strict=True):
        ledger.publish(block, name)
    ledger.release(old)
    ledger.release(new)
    ledger.allocate(1)
    assert [len(ledger.prefix.find([name])) for name in names] == [1, 0, 1, 1]
    ledger.allocate(1)
    assert [len(ledger.prefix.find([name])) for name in names] == [0, 0, 1, 1]


def test_using_a_cached_block_again_saves_it_from_being_given_up() -> None:
    ledger = BlockManager(2)
    names = names_of("a", "b")
    blocks = ledger.allocate(2)
    for block, name in zip(blocks, names, strict=True):
        ledger.publish(block, name)
    ledger.release(blocks[:1])
    ledger.release(blocks[1:])
    ledger.share(blocks[:1])
    ledger.release(blocks[:1])
    ledger.allocate(1)
    assert [len(ledger.prefix.find([name])) for name in names] == [1, 0]


def test_asking_for_too_many_changes_nothing() -> None:
    ledger = BlockManager(2)
    ledger.allocate(1)
    with pytest.raises(BlocksExhausted, match="2 blocks requested, 1 available"):
        ledger.allocate(2)
    assert (ledger.free, ledger.used) == (1, 1)


def test_a_name_keeps_its_first_block() -> None:
    ledger = BlockManager(2)
    first, second = ledger.allocate(2)
    (name,) = names_of("a")
    assert ledger.publish(first, name)
    assert not ledger.publish(second, name)
    ledger.release([first, second])
    assert (ledger.free, len(ledger.prefix.evictable)) == (1, 1)


def test_only_what_is_neither_shared_nor_named_is_lost() -> None:
    ledger = BlockManager(3)
    named, shared, own = ledger.allocate(3)
    ledger.publish(named, names_of("a")[0])
    ledger.share([shared])
    assert ledger.count_unrecoverable([named, shared, own]) == 1


def test_blocks_that_are_copied_out_are_nobodys_until_the_copy_has_settled() -> None:
    ledger = BlockManager(2)
    blocks = ledger.allocate(2)
    ledger.begin_copying(blocks)
    assert (ledger.copying, ledger.available) == (2, 0)
    ledger.end_copying(blocks)
    assert ledger.available == 2


def test_of_what_is_copied_out_others_may_use_what_they_share_meanwhile() -> None:
    ledger = BlockManager(3)
    named, shared, own = blocks = ledger.allocate(3)
    names = names_of("a")
    ledger.publish(named, names[0])
    ledger.share([shared])
    ledger.begin_copying(blocks)
    assert (ledger.used, ledger.copying) == (2, 1)
    ledger.share(ledger.prefix.find(names))
    ledger.end_copying(blocks)
    assert (ledger.used, ledger.free) == (2, 1)
    ledger.release([named])
    assert (ledger.used, len(ledger.prefix.evictable)) == (1, 1)
    ledger.release([shared])
    assert own in ledger.allocate(2)


def test_names_depend_on_everything_before_and_on_who_may_share() -> None:
    roots = [root_hash("r"), root_hash("s"), root_hash("r", "a"), root_hash("r", "", "a")]
    names = {child_hash(root, [1, 2]) for root in roots}
    names |= {child_hash(child_hash(roots[0], [1, 2]), [1, 2]), child_hash(roots[0], [1, 3])}
    assert len(names) == 6


def test_a_chain_names_what_it_named_before_and_goes_on() -> None:
    chain, fresh = HashChain(ROOT, 2), HashChain(ROOT, 2)
    ids = [1, 2, 3, 4, 5]
    assert chain.first(ids, 1) == fresh.first(ids, 2)[:1]
    assert chain.first([*ids, 6], 3)[:2] == fresh.first(ids, 2)


class Ledgers(RuleBasedStateMachine):
    """Sequences come, grow, publish, fork, are copied out and leave; the count is right throughout."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = BlockManager(12)
        self.held: list[list[int]] = []
        self.copied: list[list[int]] = []
        self.letters = iter(range(10**9))

    @rule(count=st.integers(1, 6))
    def allocate(self, count: int) -> None:
        if count > self.ledger.available:
            with pytest.raises(BlocksExhausted):
                self.ledger.allocate(count)
        else:
            self.held.append(self.ledger.allocate(count))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def publish_and_perhaps_release(self, data: st.DataObject) -> None:
        blocks = data.draw(st.sampled_from(self.held))
        if data.draw(st.booleans()):
            for block in blocks:
                if block not in self.ledger.prefix.hashes:
                    self.ledger.publish(block, child_hash(ROOT, [next(self.letters)]))
        if data.draw(st.booleans()):
            self.held.remove(blocks)
            self.ledger.release(blocks)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        blocks = data.draw(st.sampled_from(self.held))
        self.ledger.share(blocks)
        self.held.append(list(blocks))

    @precondition(lambda self: self.ledger.prefix.hashes)
    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        published = sorted(self.ledger.prefix.hashes.values())
        blocks = self.ledger.prefix.find([data.draw(st.sampled_from(published))])
        self.ledger.share(blocks)
        self.held.append(blocks)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def copy_out(self, data: st.DataObject) -> None:
        blocks = data.draw(st.sampled_from(self.held))
        self.held.remove(blocks)
        self.ledger.begin_copying(blocks)
        self.copied.append(blocks)

    @precondition(lambda self: self.copied)
    @rule()
    def settle_a_copy(self) -> None:
        self.ledger.end_copying(self.copied.pop(0))

    @invariant()
    def adds_up(self) -> None:
        ledger = self.ledger
        ledger.check()
        assert (
            ledger.free + ledger.used + len(ledger.prefix.evictable) + ledger.copying
            == ledger.total
        )
        referenced = {block for blocks in [*self.held, *self.copied] for block in blocks}
        assert ledger.used + ledger.copying == len(referenced)


TestLedgers = Ledgers.TestCase
TestLedgers.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
